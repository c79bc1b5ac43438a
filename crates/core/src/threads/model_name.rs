//! How an agent and its model are named.

use serde::{Deserialize, Serialize};
use std::fmt;

/// `provider/model/level`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ModelName {
    pub provider: String,
    /// May be empty (the provider's default) and may hold slashes.
    pub model: String,
    pub level: Option<String>,
}

/// The last part of a model's name is its level only if it is one of these.
pub const LEVELS: [&str; 6] = ["minimal", "low", "medium", "high", "xhigh", "max"];

impl ModelName {
    /// The first part is the provider (`claude` means `claude-code`), a last part
    /// that is a known level word is the level, and all between is the model.
    pub fn parse(text: &str) -> Result<ModelName, String> {
        let mut parts: Vec<&str> = text.trim().split('/').collect();
        if parts.iter().any(|p| p.trim().is_empty()) {
            return Err(format!("`{text}` is not provider/model/level"));
        }
        let provider = match parts.remove(0) {
            "claude" => "claude-code".to_owned(),
            other => other.to_owned(),
        };
        let level = match parts.last() {
            Some(last) if LEVELS.contains(last) => Some(parts.remove(parts.len() - 1).to_owned()),
            _ => None,
        };
        Ok(ModelName { provider, model: parts.join("/"), level })
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.provider)?;
        if !self.model.is_empty() {
            write!(f, "/{}", self.model)?;
        }
        if let Some(level) = &self.level {
            write!(f, "/{level}")?;
        }
        Ok(())
    }
}

impl From<ModelName> for String {
    fn from(m: ModelName) -> String {
        m.to_string()
    }
}

impl TryFrom<String> for ModelName {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        ModelName::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_name_is_provider_then_model_then_a_known_level() {
        let m = ModelName::parse("claude/opus/high").unwrap();
        assert_eq!((m.provider.as_str(), m.model.as_str(), m.level.as_deref()), ("claude-code", "opus", Some("high")));
        let m = ModelName::parse("pi/fireworks/accounts/fireworks/models/kimi").unwrap();
        assert_eq!((m.model.as_str(), m.level), ("fireworks/accounts/fireworks/models/kimi", None));
        assert_eq!(ModelName::parse("scripted").unwrap().to_string(), "scripted");
        assert!(ModelName::parse("a//b").is_err());
    }
}
