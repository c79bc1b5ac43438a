//! A server that answers what a test tells it, and remembers what it was asked.

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use std::sync::{Arc, Mutex};

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    /// Path and query.
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
}

pub struct Stub {
    pub base: String,
    pub asked: Arc<Mutex<Vec<Asked>>>,
}

impl Stub {
    /// Serves `answer`, which also learns the server's own address.
    pub async fn start(answer: impl Fn(&str, &Asked) -> Response + Send + Sync + 'static) -> Stub {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (log, own, answer) = (asked.clone(), base.clone(), Arc::new(answer));
        let router = axum::Router::new().fallback(move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let asked = Asked {
                method: method.to_string(),
                path: uri.to_string(),
                headers,
                body: String::from_utf8_lossy(&body).into_owned(),
            };
            log.lock().unwrap().push(asked.clone());
            let reply = answer(&own, &asked);
            async move { reply }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Stub { base, asked }
    }

    pub fn paths(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|a| format!("{} {}", a.method, a.path)).collect()
    }
}

/// An answer with a status, headers and a body.
pub fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
    let mut builder = Response::builder().status(StatusCode::from_u16(status).unwrap());
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(body.to_owned().into()).unwrap()
}

/// 200 with a JSON body.
pub fn ok(body: &serde_json::Value) -> Response {
    answer(200, &[("content-type", "application/json")], &body.to_string())
}
