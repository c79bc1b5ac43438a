//! The GraphQL documents against Linear's published schema and the twin's.

use apollo_compiler::{ExecutableDocument, Schema};
use std::path::Path;

fn check(schema_text: String, schema_name: &str) {
    let schema = Schema::parse_and_validate(schema_text, schema_name).unwrap_or_else(|e| panic!("{schema_name}: {e}"));
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/documents/linear");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        if let Err(e) = ExecutableDocument::parse_and_validate(&schema, text, &path) {
            panic!("{} against {schema_name}: {}", path.display(), e.errors);
        }
        seen += 1;
    }
    assert_eq!(seen, 17);
}

#[test]
fn every_document_is_valid_in_linears_published_schema() {
    let Some(root) = crate::recorded::fixtures() else { return };
    check(std::fs::read_to_string(root.join("linear/schema.graphql")).unwrap(), "schema.graphql");
}

#[test]
fn every_document_is_valid_in_the_twins_schema() {
    check(stewards_twin::sdl(), "twin.graphql");
}
