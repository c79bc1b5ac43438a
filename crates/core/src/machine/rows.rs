//! A map of rows that is cheap to copy, so that a decision can work on a world
//! of its own and be dropped whole.

use rpds::RedBlackTreeMapSync;
use std::sync::Arc;

/// Rows by id, in the order of their ids. A clone shares everything with its source; a
/// change copies the row that it touches and the few nodes above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<K: Ord, V>(RedBlackTreeMapSync<K, Arc<V>>);

impl<K: Ord, V> Default for Rows<K, V> {
    fn default() -> Self {
        Rows(RedBlackTreeMapSync::new_sync())
    }
}

impl<K: Ord + Clone, V: Clone> Rows<K, V> {
    pub fn get(&self, id: &K) -> Option<&V> {
        self.0.get(id).map(Arc::as_ref)
    }

    pub fn get_mut(&mut self, id: &K) -> Option<&mut V> {
        self.0.get_mut(id).map(Arc::make_mut)
    }

    pub fn contains(&self, id: &K) -> bool {
        self.0.contains_key(id)
    }

    pub fn insert(&mut self, id: K, row: V) {
        self.0.insert_mut(id, Arc::new(row));
    }

    pub fn remove(&mut self, id: &K) {
        self.0.remove_mut(id);
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.0.values().map(Arc::as_ref)
    }

    pub fn len(&self) -> usize {
        self.0.size()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
