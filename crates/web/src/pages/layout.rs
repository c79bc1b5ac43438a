//! What is around every page.

use super::draw::{Page, Region};
use maud::{DOCTYPE, Markup, PreEscaped, html};

fn head(title: &str, script: bool) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) }
            link rel="icon" href="/icon.svg" type="image/svg+xml";
            link rel="stylesheet" href="/style.css";
            @if script {
                script type="module" src="/page.js" {}
            }
        }
    }
}

/// A region's HTML was escaped when it was drawn.
fn region(r: &Region) -> Markup {
    html! { section id=(r.id) class={ "live " (r.class) } { (PreEscaped(&r.html)) } }
}

pub(super) fn whole(page: &Page, said: Option<&str>) -> Markup {
    let mut lists: Vec<&'static str> = page.lists.to_vec();
    for within in page.regions.iter().filter_map(|r| r.within) {
        if !lists.contains(&within) {
            lists.push(within);
        }
    }
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&page.title, true))
            body {
                a.skip href="#main" { "Skip to the content" }
                header.masthead {
                    nav aria-label="Stewards" { a.mark href="/" { span.logo aria-hidden="true" {} "Stewards" } a href="/bus" { "Bus" } }
                    span #link data-state="plain" {}
                }
                p #said role="status" { @if let Some(said) = said { (said) } }
                main #main tabindex="-1" {
                    @for r in page.regions.iter().filter(|r| r.within.is_none()) { (region(r)) }
                    @for list in lists {
                        div id=(list) {
                            @for r in page.regions.iter().filter(|r| r.within == Some(list)) { (region(r)) }
                        }
                    }
                }
                footer.foot { "Times are UTC. All of this is on the command line too: " code { "stewards list" } "." }
            }
        }
    }
}

/// A small page that only says something; needs no session and shows nothing.
pub(super) fn plain(title: &str, says: &str, hint: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&format!("{title} · Stewards"), false))
            body {
                main.plain {
                    h1 { (says) }
                    p { @for (n, piece) in hint.split('`').enumerate() {
                        @if n % 2 == 1 { code { (piece) } } @else { (piece) }
                    } }
                    p { a href="/" { "To the board" } }
                }
            }
        }
    }
}
