//! Webhooks: signed, one attempt each, in the background.
//!
//! GitHub does not send again what could not be delivered, so neither does the
//! twin: a lost webhook is something its users have to live with.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::model::{Event, uuid_from};
use crate::world::Hook;
use crate::{App, Error};

fn sign(secret: &str, body: &[u8]) -> String {
    match Hmac::<Sha256>::new_from_slice(secret.as_bytes()) {
        Ok(mut mac) => {
            mac.update(body);
            hex::encode(mac.finalize().into_bytes())
        }
        // HMAC takes keys of any length; an empty signature is refused by every receiver.
        Err(_) => String::new(),
    }
}

/// Whom a webhook goes to.
struct Target {
    /// 1 is the one of the twin's configuration.
    hook: u64,
    url: String,
    secret: String,
}

/// The configured one, and those that were set up over the APIs.
fn targets(app: &App, hook: &Hook) -> Vec<Target> {
    let set = |hook: u64, url: String, secret: String| Target { hook, url, secret };
    let (configured, others): (Target, Vec<Target>) = match hook {
        Hook::Linear { entity, body } => {
            let found = app.team_hooks.wanting(&team_of(app, body), entity);
            let others = found.into_iter().map(|h| set(0, h.url, h.secret)).collect();
            (set(1, app.hooks.linear_url.clone(), app.hooks.linear_secret.clone()), others)
        }
        Hook::GitHub { event, body } => {
            let repo = body["repository"]["full_name"].as_str().unwrap_or_default();
            let found = app.repo_hooks.wanting(repo, event);
            let others = found.into_iter().map(|h| set(h.id, h.url, h.secret)).collect();
            (set(1, app.hooks.github_url.clone(), app.hooks.github_secret.clone()), others)
        }
    };
    std::iter::once(configured).chain(others).filter(|t| !t.url.is_empty()).collect()
}

/// The id of the team that an entity of Linear's belongs to.
fn team_of(app: &App, body: &Value) -> String {
    let state = app.world.state();
    let named = ["/data/teamId", "/data/issue/teamId"].iter().find_map(|p| body.pointer(p)?.as_str());
    let of_ticket = || {
        let ticket = state.tickets.get(body.pointer("/data/issueId")?.as_str()?)?;
        Some(state.teams.get(&ticket.team)?.id.clone())
    };
    named.map(str::to_owned).or_else(of_ticket).unwrap_or_default()
}

/// Sends one webhook in the background, unless hooks are muted or have no address.
pub fn send(app: &Arc<App>, hook: Hook) {
    if app.world.state().muted {
        return;
    }
    let sent = Timestamp::now();
    for target in targets(app, &hook) {
        let (app, hook) = (app.clone(), hook.clone());
        app.clone().tasks.spawn(async move { deliver(app, hook, target, sent).await });
    }
}

async fn deliver(app: Arc<App>, hook: Hook, target: Target, sent: Timestamp) {
    let (service, event, payload) = match &hook {
        Hook::Linear { entity, body } => ("linear", *entity, body.clone()),
        Hook::GitHub { event, body } => ("github", *event, body.clone()),
    };
    // One event has one id, whichever hook tells of it.
    let delivery = uuid_from(&format!("delivery/{service}/{event}"), sent.as_nanosecond() as u64);
    let request = app.client.post(&target.url);
    let (request, bytes) = match hook {
        Hook::Linear { entity, mut body } => {
            body["webhookTimestamp"] = json!(sent.as_millisecond());
            body["webhookId"] = json!(uuid_from("webhook", target.hook));
            body["organizationId"] = json!(uuid_from("organization", 0));
            let bytes = body.to_string().into_bytes();
            let request = request
                .header("content-type", "application/json; charset=utf-8")
                .header("user-agent", "Linear-Webhook")
                .header("Linear-Delivery", &delivery)
                .header("Linear-Event", entity)
                .header("Linear-Signature", sign(&target.secret, &bytes));
            (request, bytes)
        }
        Hook::GitHub { event, body } => {
            let bytes = body.to_string().into_bytes();
            let request = request
                .header("content-type", "application/json")
                .header("user-agent", "GitHub-Hookshot/twin")
                .header("X-GitHub-Delivery", &delivery)
                .header("X-GitHub-Event", event)
                .header("X-GitHub-Hook-Id", target.hook.to_string())
                .header("X-GitHub-Hook-Installation-Target-Type", "repository")
                .header("X-Hub-Signature-256", format!("sha256={}", sign(&target.secret, &bytes)));
            (request, bytes)
        }
    };
    let fault = crate::faults::of_hook(&app, service, &bytes);
    let Ok(request) = request.body(bytes).build() else { return };
    let again = request.try_clone().filter(|_| fault.twice);
    let sending = async {
        if let Some(delay) = fault.delay {
            tokio::time::sleep(delay).await;
        }
        let answer = app.client.execute(request).await;
        match again {
            Some(again) => app.client.execute(again).await,
            None => answer,
        }
    };
    let status = match fault.lost {
        // It is on record as tried, and nobody has heard of it.
        true => 0,
        false => tokio::select! {
            answer = sending => match answer {
                Ok(a) => a.status().as_u16(),
                Err(e) => {
                    tracing::warn!(service, event, error = %e, "webhook not delivered");
                    0
                }
            },
            () = app.stop.cancelled() => return,
        },
    };
    let ok = (200..300).contains(&status);
    if !ok && status > 0 {
        tracing::warn!(service, event, status, "webhook refused");
    }
    if service == "github" {
        app.repo_hooks.tried(target.hook, &delivery, event, status, payload);
    }
    let noted: Result<(), Error> = app.change(|tx| {
        tx.put(Event::Delivery { service: service.into(), event: event.into(), ok });
        Ok(())
    });
    if let Err(e) = noted {
        tracing::warn!(error = %e, "webhook delivery not journalled");
    }
}
