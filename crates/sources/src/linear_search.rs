//! Looking for tickets, and questions of one's own that only read.

use crate::linear::{Linear, OVER, all_pages};
use crate::linear_wire::{self as wire, Issue, Page, TeamStates};
use apollo_compiler::ast::{Definition, Document, OperationType};
use serde_json::{Value, json};
use stewards_core::ports::{TicketLine, TicketSearch};
use stewards_core::trouble::Trouble;

const SEARCH: &str = include_str!("documents/linear/search.graphql");
const TEAMS: &str = include_str!("documents/linear/teams.graphql");

/// Tickets that one search answers at most.
const MOST: u32 = 100;

/// Linear's filter for what is asked.
fn filter(ask: &TicketSearch) -> Value {
    let same = |name: &str| json!({"eqIgnoreCase": name});
    // Every word, in title or description.
    let mut all: Vec<Value> = ask
        .text
        .split_whitespace()
        .map(|word| {
            let has = json!({"containsIgnoreCase": word});
            json!({"or": [{"title": has}, {"description": has}]})
        })
        .collect();
    if let Some(team) = &ask.team {
        all.push(json!({"team": {"key": same(team)}}));
    }
    match &ask.state {
        Some(state) => all.push(json!({"state": {"name": same(state)}})),
        None if ask.over => {}
        None => all.push(json!({"state": {"type": {"nin": OVER}}})),
    }
    match ask.assignee.as_deref() {
        None => {}
        Some("me") => all.push(json!({"assignee": {"isMe": {"eq": true}}})),
        Some("nobody") => all.push(json!({"assignee": {"null": true}})),
        Some(name) => {
            let of = ["name", "displayName", "email"].map(|field| json!({field: same(name)}));
            all.push(json!({"assignee": {"or": of}}));
        }
    }
    json!({ "and": all })
}

impl Linear {
    /// The tickets that fit, the one that changed last first. Where none does and a
    /// name is of nothing, that is said with what there is.
    pub(crate) async fn look_for(&self, ask: &TicketSearch) -> Result<Vec<TicketLine>, Trouble> {
        let variables = json!({"filter": filter(ask), "first": ask.limit.clamp(1, MOST)});
        let found: Page<Issue> = self.field(SEARCH, variables, None, "/issues").await?;
        if found.nodes.is_empty() && (ask.team.is_some() || ask.state.is_some()) {
            self.names_are_known(ask).await?;
        }
        Ok(found.nodes.into_iter().map(wire::line).collect())
    }

    async fn teams(&self) -> Result<Vec<TeamStates>, Trouble> {
        let page =
            |after: Option<String>| self.field::<Page<TeamStates>>(TEAMS, json!({"after": after}), None, "/teams");
        all_pages(page(None).await?, |after| page(Some(after))).await
    }

    /// The keys of all teams, for people.
    pub(crate) async fn team_keys(&self) -> Result<String, Trouble> {
        let keys: Vec<String> = self.teams().await?.into_iter().filter_map(|t| t.key).collect();
        Ok(keys.join(", "))
    }

    async fn names_are_known(&self, ask: &TicketSearch) -> Result<(), Trouble> {
        let teams = self.teams().await?;
        let is = |one: &str, other: &str| one.eq_ignore_ascii_case(other);
        let keys: Vec<&str> = teams.iter().filter_map(|t| t.key.as_deref()).collect();
        if let Some(team) = ask.team.as_deref().filter(|t| !keys.iter().any(|k| is(k, t))) {
            let says = format!("no team has the key {team}; there are {}", keys.join(", "));
            return Err(Trouble::Refused { says });
        }
        let Some(state) = &ask.state else { return Ok(()) };
        let of =
            teams.iter().filter(|t| ask.team.as_deref().is_none_or(|a| t.key.as_deref().is_some_and(|k| is(k, a))));
        let mut names: Vec<&str> = of.flat_map(TeamStates::names).collect();
        names.sort_unstable();
        names.dedup();
        match names.iter().any(|n| n.to_lowercase() == state.to_lowercase()) {
            true => Ok(()),
            false => {
                let says = format!("no state is called {state}; there are {}", names.join(", "));
                Err(Trouble::Refused { says })
            }
        }
    }

    /// Asks a question of one's own. What would change anything is not sent.
    pub(crate) async fn question(&self, query: &str, variables: &Value) -> Result<Value, Trouble> {
        only_reads(query)?;
        if !variables.is_object() && !variables.is_null() {
            return Err(Trouble::Refused { says: "the variables are no object".into() });
        }
        let variables = if variables.is_null() { json!({}) } else { variables.clone() };
        match self.ask(query, variables, None).await {
            // Nothing that was asked for by name is meant: it is the question that is wrong.
            Err(Trouble::Gone { says }) => Err(Trouble::Refused { says }),
            answer => answer,
        }
    }
}

/// Every operation of it is a query, and there is one.
fn only_reads(query: &str) -> Result<(), Trouble> {
    let refused = |says: String| Err(Trouble::Refused { says });
    let document = match Document::parse(query, "query.graphql") {
        Ok(document) => document,
        Err(bad) => return refused(format!("that is no GraphQL: {}", bad.errors)),
    };
    let mut queries = 0;
    for definition in &document.definitions {
        match definition {
            Definition::OperationDefinition(one) if one.operation_type == OperationType::Query => queries += 1,
            Definition::FragmentDefinition(_) => {}
            Definition::OperationDefinition(one) => {
                return refused(format!("this only reads, and a {} does not", one.operation_type));
            }
            _ => return refused("only queries and fragments are asked".into()),
        }
    }
    match queries {
        0 => refused("there is no query in it".into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_reads_is_asked_and_nothing_else() {
        for good in
            ["{ viewer { id } }", "query A($x: Int) { teams(first: $x) { nodes { ...f } } } fragment f on Team { key }"]
        {
            assert_eq!(only_reads(good), Ok(()), "{good}");
        }
        for (bad, words) in [
            ("mutation { issueDelete(id: \"1\") { success } }", "a mutation does not"),
            ("query A { viewer { id } } mutation B { x }", "a mutation does not"),
            ("subscription { x }", "a subscription does not"),
            ("fragment f on Team { key }", "no query"),
            ("type A { b: Int }", "only queries"),
            ("{ viewer {", "no GraphQL"),
            ("", "no GraphQL"),
        ] {
            let Err(Trouble::Refused { says }) = only_reads(bad) else { panic!("{bad}") };
            assert!(says.contains(words), "{bad}: {says}");
        }
    }

    #[test]
    fn every_word_and_every_name_narrows_the_search() {
        let ask = TicketSearch { text: "login page".into(), assignee: Some("me".into()), ..TicketSearch::default() };
        let filter = filter(&ask).to_string();
        for part in ["\"login\"", "\"page\"", "isMe", "nin"] {
            assert!(filter.contains(part), "{filter}");
        }
    }
}
