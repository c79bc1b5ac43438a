//! Answers kept with their ETag. An unchanged answer costs no quota, and most
//! looks find nothing new.

use reqwest::header::HeaderMap;
use std::collections::HashMap;
use std::sync::Arc;

/// How many answers are kept.
pub(crate) const MAX_ENTRIES: usize = 500;
/// How many bytes of bodies are kept in all.
const MAX_BYTES: usize = 48 * 1024 * 1024;

/// An answer as it was.
#[derive(Debug)]
pub(crate) struct Kept {
    pub etag: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// Answers by address; the one used longest ago leaves first.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: HashMap<String, (u64, Arc<Kept>)>,
    bytes: usize,
    clock: u64,
}

impl Cache {
    pub fn get(&mut self, url: &str) -> Option<Arc<Kept>> {
        self.clock += 1;
        let (used, kept) = self.entries.get_mut(url)?;
        *used = self.clock;
        Some(kept.clone())
    }

    pub fn put(&mut self, url: String, kept: Kept) {
        self.remove(&url);
        if kept.body.len() > MAX_BYTES / 8 {
            return;
        }
        self.clock += 1;
        self.bytes += kept.body.len();
        self.entries.insert(url, (self.clock, Arc::new(kept)));
        while self.entries.len() > MAX_ENTRIES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.entries.iter().min_by_key(|(_, (used, _))| *used).map(|(url, _)| url.clone())
            else {
                return;
            };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, url: &str) {
        if let Some((_, old)) = self.entries.remove(url) {
            self.bytes -= old.body.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(size: usize) -> Kept {
        Kept { etag: "\"a\"".into(), headers: HeaderMap::new(), body: vec![0; size] }
    }

    #[test]
    fn the_answer_used_longest_ago_leaves_first() {
        let mut cache = Cache::default();
        for n in 0..MAX_ENTRIES {
            cache.put(n.to_string(), kept(1));
        }
        assert!(cache.get("0").is_some());
        cache.put("new".into(), kept(1));
        assert_eq!(cache.entries.len(), MAX_ENTRIES);
        assert!(cache.get("0").is_some());
        assert!(cache.get("1").is_none());
    }

    #[test]
    fn bodies_are_bounded_in_bytes_too() {
        let mut cache = Cache::default();
        for n in 0..20 {
            cache.put(n.to_string(), kept(MAX_BYTES / 8));
        }
        assert!(cache.bytes <= MAX_BYTES);
        cache.put("huge".into(), kept(MAX_BYTES));
        assert!(cache.get("huge").is_none());
        cache.put("19".into(), kept(3));
        assert_eq!(cache.get("19").unwrap().body.len(), 3);
    }
}
