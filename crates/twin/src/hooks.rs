//! Webhooks: signed, one attempt each, in the background.
//!
//! GitHub does not send again what could not be delivered, so neither does the
//! twin: a lost webhook is something its users have to live with.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde_json::json;
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

/// Sends one webhook in the background, unless hooks are muted or have no address.
pub fn send(app: &Arc<App>, hook: Hook) {
    if app.world.state().muted {
        return;
    }
    let (service, event, url) = match &hook {
        Hook::Linear { entity, .. } => ("linear", *entity, app.hooks.linear_url.clone()),
        Hook::GitHub { event, .. } => ("github", *event, app.hooks.github_url.clone()),
    };
    if url.is_empty() {
        return;
    }
    let task = app.clone();
    app.tasks.spawn(async move {
        let app = task;
        let sent = Timestamp::now();
        let delivery = uuid_from(&format!("delivery/{service}/{event}"), sent.as_nanosecond() as u64);
        let request = app.client.post(&url);
        let request = match hook {
            Hook::Linear { entity, mut body } => {
                body["webhookTimestamp"] = json!(sent.as_millisecond());
                body["webhookId"] = json!(uuid_from("webhook", 0));
                body["organizationId"] = json!(uuid_from("organization", 0));
                let bytes = body.to_string().into_bytes();
                request
                    .header("content-type", "application/json; charset=utf-8")
                    .header("user-agent", "Linear-Webhook")
                    .header("Linear-Delivery", &delivery)
                    .header("Linear-Event", entity)
                    .header("Linear-Signature", sign(&app.hooks.linear_secret, &bytes))
                    .body(bytes)
            }
            Hook::GitHub { event, body } => {
                let bytes = body.to_string().into_bytes();
                request
                    .header("content-type", "application/json")
                    .header("user-agent", "GitHub-Hookshot/twin")
                    .header("X-GitHub-Delivery", &delivery)
                    .header("X-GitHub-Event", event)
                    .header("X-GitHub-Hook-Id", "1")
                    .header("X-GitHub-Hook-Installation-Target-Type", "repository")
                    .header("X-Hub-Signature-256", format!("sha256={}", sign(&app.hooks.github_secret, &bytes)))
                    .body(bytes)
            }
        };
        let Ok(request) = request.build() else { return };
        let body = request.body().and_then(|b| b.as_bytes()).unwrap_or_default().to_vec();
        let fault = crate::faults::of_hook(&app, service, &body);
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
        if fault.lost {
            return;
        }
        let answer = tokio::select! {
            answer = sending => answer,
            () = app.stop.cancelled() => return,
        };
        let ok = match answer {
            Ok(a) if a.status().is_success() => true,
            Ok(a) => {
                tracing::warn!(service, event, status = a.status().as_u16(), "webhook refused");
                false
            }
            Err(e) => {
                tracing::warn!(service, event, error = %e, "webhook not delivered");
                false
            }
        };
        let noted: Result<(), Error> = app.change(|tx| {
            tx.put(Event::Delivery { service: service.into(), event: event.into(), ok });
            Ok(())
        });
        if let Err(e) = noted {
            tracing::warn!(error = %e, "webhook delivery not journalled");
        }
    });
}
