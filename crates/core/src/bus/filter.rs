//! What the log may be asked for.

use super::kinds::known_kind;
use super::refs::{about, check_ref};
use super::send::OWNER;
use crate::entity::RepoName;
use crate::ids::ThreadId;
use crate::machine::World;
use crate::refusal::Refusal;
use crate::threads::unknown;

/// Somebody of that name has ever been here: nothing of theirs is something else than
/// nothing of nobody's.
pub(super) fn addressable(world: &World, name: &str) -> Result<(), Refusal> {
    match name == OWNER || world.threads.contains(&ThreadId(name.to_owned())) {
        true => Ok(()),
        false => Err(unknown(&ThreadId(name.to_owned()))),
    }
}

/// Checks what is asked for, each if it is named, and answers the spelling by which the
/// log finds the ref.
pub fn filter(
    world: &World,
    home: &RepoName,
    kind: Option<&str>,
    [from, to]: [Option<&str>; 2],
    reference: Option<&str>,
) -> Result<Option<String>, Refusal> {
    kind.map_or(Ok(()), |name| known_kind(name).map(drop))?;
    from.into_iter().chain(to).try_for_each(|name| addressable(world, name))?;
    reference.map(|r| check_ref(r.trim(), home, None).map(|()| about(r, home))).transpose()
}
