//! Who one is at Linear and GitHub: tokens in a file of their own, readable by its
//! owner alone, and renewed where they end.

use crate::oauth;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
pub use stewards_core::ports::Service;
use stewards_core::snapshot::Author;
use stewards_core::trouble::Trouble;

/// A token is renewed when it lasts for less than this.
const EARLY: SignedDuration = SignedDuration::from_mins(2);

/// How a login came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// A key or token that was pasted; it is never renewed.
    Token,
    /// In the browser.
    Browser,
    /// By a code that was typed into the browser.
    Device,
    /// The token of the `gh` of this machine.
    Gh,
}

/// One's login at a service.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    pub how: How,
    pub token: String,
    #[serde(default)]
    pub renewal: Option<Renewal>,
    /// When the token ends; nothing for one that does not.
    #[serde(default)]
    pub expires: Option<Timestamp>,
    /// The name that the service knows one by.
    #[serde(default)]
    pub who: String,
    pub since: Timestamp,
    /// Why it is of no use any more.
    #[serde(default)]
    pub ended: Option<String>,
}

/// How a token is renewed.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    /// The refresh token; each is of use once.
    pub token: String,
    pub url: String,
    pub client: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({:?} as {})", self.how, self.who)
    }
}

impl fmt::Debug for Renewal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Renewal(at {})", self.url)
    }
}

impl Login {
    /// A token that was pasted or found.
    pub fn of_token(how: How, token: &str) -> Login {
        Login {
            how,
            token: token.trim().to_owned(),
            renewal: None,
            expires: None,
            who: String::new(),
            since: Timestamp::now(),
            ended: None,
        }
    }
}

/// All logins of a data directory, in `logins.json`. Several processes may use them:
/// whoever changes the file holds its lock meanwhile.
#[derive(Debug)]
pub struct Logins {
    file: PathBuf,
    /// One renewal at a time: a refresh token is of use once.
    renewing: tokio::sync::Mutex<()>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Kept {
    linear: Option<Login>,
    github: Option<Login>,
}

impl Kept {
    fn of(&mut self, service: Service) -> &mut Option<Login> {
        match service {
            Service::Linear => &mut self.linear,
            Service::GitHub => &mut self.github,
        }
    }
}

impl Logins {
    /// The file may be missing: nobody is logged in then.
    pub fn new(file: PathBuf) -> Logins {
        Logins { file, renewing: tokio::sync::Mutex::new(()) }
    }

    fn read(&self) -> io::Result<Kept> {
        let mut text = String::new();
        match File::open(&self.file) {
            Ok(mut file) => file.read_to_string(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kept::default()),
            Err(error) => return Err(error),
        };
        serde_json::from_str(&text).map_err(|e| {
            let says = format!("{} is not as it was written: {e}", self.file.display());
            io::Error::new(io::ErrorKind::InvalidData, says)
        })
    }

    pub fn get(&self, service: Service) -> io::Result<Option<Login>> {
        Ok(self.read()?.of(service).take())
    }

    /// Changes one login under the file's lock; the whole file or nothing is written.
    /// Answers what the change answered.
    fn change<T>(&self, service: Service, change: impl FnOnce(&mut Option<Login>) -> T) -> io::Result<T> {
        let guard = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.file.with_extension("lock"))?;
        guard.lock()?;
        let mut kept = self.read()?;
        let answer = change(kept.of(service));
        let fresh = self.file.with_extension("new");
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(serde_json::to_string_pretty(&kept).map_err(io::Error::other)?.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.file)?;
        Ok(answer)
    }

    pub fn put(&self, service: Service, login: Login) -> io::Result<()> {
        self.change(service, |kept| *kept = Some(login))
    }

    /// Forgets it, and answers what was forgotten.
    pub fn remove(&self, service: Service) -> io::Result<Option<Login>> {
        self.change(service, Option::take)
    }

    /// The token that counts now, renewed where it is about to end.
    ///
    /// # Errors
    /// `Unauthorized` where nobody is logged in or the login has ended for good,
    /// `Flaky` where it could not be renewed now.
    pub async fn token(&self, service: Service) -> Result<String, Trouble> {
        let login = self.usable(service)?;
        let ends = login.expires.is_some_and(|at| at - Timestamp::now() < EARLY);
        if !ends || login.renewal.is_none() {
            return Ok(login.token);
        }
        let _one = self.renewing.lock().await;
        // Somebody may have been quicker.
        let now = self.usable(service)?;
        if now.token != login.token {
            return Ok(now.token);
        }
        match self.renew(service, &now).await {
            Err(Trouble::Flaky { says }) if now.expires.is_some_and(|at| at > Timestamp::now()) => {
                tracing::warn!(service = service.word(), says, "the login could not be renewed yet");
                Ok(now.token)
            }
            other => other,
        }
    }

    /// The service refused this token. Answers another one, if there is one by now or
    /// one can be had.
    pub async fn instead_of(&self, service: Service, refused: &str) -> Option<String> {
        let _one = self.renewing.lock().await;
        let now = self.usable(service).ok()?;
        if now.token != refused {
            return Some(now.token);
        }
        now.renewal.as_ref()?;
        self.renew(service, &now).await.ok()
    }

    fn usable(&self, service: Service) -> Result<Login, Trouble> {
        let again = format!("stewards login {}", service.word());
        let no = |says: String| Trouble::Unauthorized { says };
        let found = self.get(service).map_err(|e| no(format!("the logins cannot be read: {e}")))?;
        let login = found.ok_or_else(|| no(format!("nobody is logged in to {}: {again}", service.name())))?;
        match &login.ended {
            Some(why) => Err(no(format!("the login at {} has ended ({why}): {again}", service.name()))),
            None => Ok(login),
        }
    }

    async fn renew(&self, service: Service, old: &Login) -> Result<String, Trouble> {
        let Some(renewal) = &old.renewal else { return Ok(old.token.clone()) };
        let unsaved = |e: io::Error| Trouble::Flaky { says: format!("the logins cannot be written: {e}") };
        // Only the login that was renewed is changed: one may have logged in anew meanwhile.
        let same = |kept: &Option<Login>| kept.as_ref().is_some_and(|k| k.renewal.as_ref() == Some(renewal));
        match oauth::renew(renewal).await {
            Ok(tokens) => {
                let token = tokens.token.clone();
                let fresh = Login {
                    token: tokens.token,
                    expires: tokens.expires,
                    renewal: tokens.refresh.map(|token| Renewal { token, ..renewal.clone() }).or(old.renewal.clone()),
                    ..old.clone()
                };
                self.change(service, |kept| {
                    if same(kept) {
                        *kept = Some(fresh);
                    }
                })
                .map_err(unsaved)?;
                tracing::info!(service = service.word(), "the login was renewed");
                Ok(token)
            }
            Err(oauth::Failed::Ended(why)) => {
                self.change(service, |kept| {
                    if let (true, Some(kept)) = (same(kept), kept) {
                        kept.ended = Some(why.clone());
                    }
                })
                .map_err(unsaved)?;
                tracing::error!(service = service.word(), why, "the login has ended");
                Err(self.usable(service).err().unwrap_or(Trouble::Unauthorized { says: why }))
            }
            Err(oauth::Failed::Not(trouble)) => Err(trouble),
        }
    }
}

/// Where a client has its token from.
#[derive(Clone)]
pub enum Token {
    Fixed(String),
    Kept(Arc<Logins>, Service),
}

impl From<String> for Token {
    fn from(token: String) -> Token {
        Token::Fixed(token.trim().to_owned())
    }
}

impl From<&str> for Token {
    fn from(token: &str) -> Token {
        token.to_owned().into()
    }
}

impl Token {
    pub(crate) async fn now(&self) -> Result<String, Trouble> {
        match self {
            Token::Fixed(token) => Ok(token.clone()),
            Token::Kept(logins, service) => logins.token(*service).await,
        }
    }

    /// Another one than the one that was refused, where there is one.
    pub(crate) async fn instead_of(&self, refused: &str) -> Option<String> {
        match self {
            Token::Fixed(_) => None,
            Token::Kept(logins, service) => logins.instead_of(*service, refused).await,
        }
    }
}

/// Whose token it is: asked once for each token.
#[derive(Default)]
pub(crate) struct Me(tokio::sync::Mutex<Option<(String, Author)>>);

impl Me {
    pub(crate) async fn of(
        &self,
        token: &Token,
        ask: impl Future<Output = Result<Author, Trouble>>,
    ) -> Result<Author, Trouble> {
        let now = token.now().await?;
        let mut known = self.0.lock().await;
        if let Some((_, me)) = known.as_ref().filter(|(of, _)| *of == now) {
            return Ok(me.clone());
        }
        let me = ask.await?;
        *known = Some((now, me.clone()));
        Ok(me)
    }
}
