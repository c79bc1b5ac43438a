//! A company's network: a proxy that all requests go through, and a certificate authority of
//! its own.

use crate::rig::{stewards, told};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

const HOST: &str = "github.example.test";

/// A proxy whose other side is always a GitHub that knows one person: it answers what is asked
/// in the clear, and what is asked within a tunnel by a certificate of its own authority.
struct Proxy {
    dir: tempfile::TempDir,
    port: u16,
    /// The first line of each request, those within a tunnel with `in: ` before them.
    heard: Receiver<String>,
}

impl Proxy {
    fn new() -> Proxy {
        let dir = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = rcgen::CertifiedIssuer::self_signed(params, key).unwrap();
        std::fs::write(dir.path().join("authority.pem"), authority.pem()).unwrap();
        let own = rcgen::KeyPair::generate().unwrap();
        let leaf = rcgen::CertificateParams::new(vec![HOST.to_owned()]).unwrap().signed_by(&own, &authority).unwrap();
        let tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(
                vec![leaf.der().clone()],
                rustls::pki_types::PrivatePkcs8KeyDer::from(own.serialize_der()).into(),
            )
            .unwrap();
        let tls = Arc::new(tls);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, heard) = channel();
        std::thread::spawn(move || {
            for line in listener.incoming().map_while(Result::ok) {
                let (tls, tell) = (tls.clone(), tell.clone());
                std::thread::spawn(move || {
                    let mut line: TcpStream = line;
                    let Some(first) = head(&mut line) else { return };
                    let _ = tell.send(first.clone());
                    if !first.starts_with("CONNECT ") {
                        return answer(&mut line);
                    }
                    line.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                    let inner = rustls::ServerConnection::new(tls).unwrap();
                    let mut inner = rustls::StreamOwned::new(inner, line);
                    // A caller that does not trust the certificate hangs up.
                    let Some(first) = head(&mut inner) else { return };
                    let _ = tell.send(format!("in: {first}"));
                    answer(&mut inner);
                });
            }
        });
        Proxy { dir, port, heard }
    }

    /// Logs in at a GitHub that only the proxy can reach: what was said, the exit code, and
    /// what the proxy was asked.
    fn login(&self, scheme: &str, env: &[(&str, String)]) -> (String, i32, Vec<String>) {
        let home = tempfile::tempdir().unwrap();
        let settings = json!({"github_api": format!("{scheme}://{HOST}/api/v3")});
        std::fs::write(home.path().join("settings.json"), settings.to_string()).unwrap();
        let mut command = stewards(&["login", "github", "--with-token"]);
        for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir"] {
            command.env_remove(name).env_remove(name.to_uppercase());
        }
        command.env("STEWARDS_DIR", home.path()).env_remove("STEWARDS_THREAD").envs(env.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"ghp_mine").unwrap();
        let (out, error, code) = told(&child.wait_with_output().unwrap());
        (out + &error, code, self.heard.try_iter().collect())
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn authority(&self) -> PathBuf {
        self.dir.path().join("authority.pem")
    }
}

/// The first line of a request; nothing where the line breaks before its head ends.
fn head(line: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        line.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).lines().next().map(str::to_owned)
}

fn answer(line: &mut impl Write) {
    let body = json!({"login": "ann", "id": 1, "type": "User"}).to_string();
    let length = body.len();
    let _ = write!(
        line,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let _ = line.flush();
}

#[test]
fn requests_go_through_the_environments_proxy_and_an_own_authority_is_trusted() {
    let proxy = Proxy::new();
    // In the clear, as some companies have it within their own network.
    let (said, code, heard) = proxy.login("http", &[("http_proxy", proxy.url())]);
    assert!(code == 0 && said.contains("ann"), "{said}");
    assert!(heard.contains(&format!("GET http://{HOST}/api/v3/user HTTP/1.1")), "{heard:?}");
    let secure = ("HTTPS_PROXY", proxy.url());
    // Nobody vouches for the certificate: refused with what to do, and no token was sent.
    let (said, code, heard) = proxy.login("https", std::slice::from_ref(&secure));
    assert!(code != 0 && said.contains("certificate") && said.contains("SSL_CERT_FILE"), "{code} {said}");
    assert!(heard.iter().all(|l| l == &format!("CONNECT {HOST}:443 HTTP/1.1")) && !heard.is_empty(), "{heard:?}");
    let trusted = ("SSL_CERT_FILE", proxy.authority().display().to_string());
    let (said, code, heard) = proxy.login("https", &[secure.clone(), trusted.clone()]);
    assert!(code == 0 && said.contains("ann"), "{said}");
    assert!(heard.contains(&"in: GET /api/v3/user HTTP/1.1".to_owned()), "{heard:?}");
    // What is not to go through the proxy does not.
    let (said, code, heard) = proxy.login("https", &[secure, trusted, ("NO_PROXY", HOST.into())]);
    assert!(code == 69 && heard.is_empty(), "{code} {said} {heard:?}");
}
