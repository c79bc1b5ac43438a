//! JSON Schemas of the files below `.bb`, for editors and for people.

pub const PROJECT: &str = include_str!("schemas/project.json");
pub const ROLES: &str = include_str!("schemas/roles.json");
pub const REPOS: &str = include_str!("schemas/repos.json");
/// Of the front matter.
pub const PLAYBOOK: &str = include_str!("schemas/playbook.json");
