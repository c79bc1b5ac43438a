//! A map of rows that is cheap to copy, so that a decision can work on a world
//! of its own and be dropped whole.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows by id, in the order of their ids. A clone shares everything until one
/// side changes; a change copies the row it touches.
#[derive(Debug, PartialEq, Eq)]
pub struct Rows<K, V>(Arc<BTreeMap<K, Arc<V>>>);

impl<K, V> Clone for Rows<K, V> {
    fn clone(&self) -> Self {
        Rows(Arc::clone(&self.0))
    }
}

impl<K, V> Default for Rows<K, V> {
    fn default() -> Self {
        Rows(Arc::new(BTreeMap::new()))
    }
}

impl<K: Ord + Clone, V: Clone> Rows<K, V> {
    pub fn get(&self, id: &K) -> Option<&V> {
        self.0.get(id).map(Arc::as_ref)
    }

    pub fn get_mut(&mut self, id: &K) -> Option<&mut V> {
        if !self.0.contains_key(id) {
            return None;
        }
        Arc::make_mut(&mut self.0).get_mut(id).map(Arc::make_mut)
    }

    pub fn contains(&self, id: &K) -> bool {
        self.0.contains_key(id)
    }

    pub fn insert(&mut self, id: K, row: V) {
        Arc::make_mut(&mut self.0).insert(id, Arc::new(row));
    }

    pub fn remove(&mut self, id: &K) {
        Arc::make_mut(&mut self.0).remove(id);
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.0.values().map(Arc::as_ref)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
