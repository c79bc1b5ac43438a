//! The GraphQL documents against the published schemas and the twin's.

use apollo_compiler::validation::Valid;
use apollo_compiler::{ExecutableDocument, Schema};
use std::path::Path;
use stewards_core::entity::{PullKey, RepoName};
use stewards_sources::{Asked, poll_query};

fn schema(text: String, name: &str) -> Valid<Schema> {
    Schema::parse_and_validate(text, name).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn fits(schema: &Valid<Schema>, text: &str, path: impl AsRef<Path>) {
    if let Err(e) = ExecutableDocument::parse_and_validate(schema, text, &path) {
        panic!("{}: {}", path.as_ref().display(), e.errors);
    }
}

fn linear(text: String, name: &str) {
    let schema = schema(text, name);
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/documents/linear");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        fits(&schema, &std::fs::read_to_string(&path).unwrap(), &path);
        seen += 1;
    }
    assert_eq!(seen, 24);
}

fn github(text: String, name: &str) {
    let schema = schema(text, name);
    let repo = |name: &str| RepoName(name.into());
    let pull = |name: &str, number| Asked::Pull(PullKey { repo: repo(name), number });
    let branch = |name: &str| Asked::Branch(repo(name), "a/b".into());
    let both = [pull("o/one", 1), branch("o/two"), pull("o/two", 7), branch("o/one")];
    for asked in [&both[..], &both[..1], &both[1..2]] {
        let (query, variables, places) = poll_query(asked);
        fits(&schema, &query, "poll.graphql");
        assert_eq!(places.len(), asked.len());
        assert!(variables.as_object().is_some_and(|v| v.len() >= 2));
    }
}

#[test]
fn every_document_is_valid_in_linears_published_schema() {
    let Some(root) = crate::recorded::fixtures() else { return };
    linear(std::fs::read_to_string(root.join("linear/schema.graphql")).unwrap(), "schema.graphql");
}

#[test]
fn every_query_is_valid_in_githubs_published_schema() {
    let Some(root) = crate::recorded::fixtures() else { return };
    let text = std::fs::read_to_string(root.join("github/graphql/schema.dedup.graphql")).unwrap();
    github(text, "schema.dedup.graphql");
}

#[test]
fn every_document_is_valid_in_the_twins_schemas() {
    linear(stewards_twin::sdl(), "linear.graphql");
    github(stewards_twin::github_sdl(), "github.graphql");
}
