//! The operations, by tag.

use std::str::FromStr as _;

use serde_json::Value;

use super::{html::Html, schemas};
use crate::problem::Code;

/// One operation of the contract.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    body: &'a Value,
}

impl Operation<'_> {
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.method.to_uppercase(), self.path)
    }

    /// The link to its section.
    pub(super) fn anchor(&self) -> String {
        format!("#{}", self.id())
    }

    fn id(&self) -> String {
        format!("op-{}", text(self.body, "operationId"))
    }
}

/// The operations of each tag, tags in the order of the contract and then as they come.
pub(super) fn by_tag(contract: &Value) -> Vec<(&str, Vec<Operation<'_>>)> {
    let named = contract["tags"].as_array().into_iter().flatten();
    let mut tags: Vec<(&str, Vec<Operation<'_>>)> =
        named.map(|tag| (text(tag, "name"), Vec::new())).collect();
    for (path, item) in contract["paths"].as_object().into_iter().flatten() {
        for (method, body) in item.as_object().into_iter().flatten() {
            let tag = body["tags"][0].as_str().unwrap_or("other");
            let operation = Operation { method, path, body };
            match tags.iter_mut().find(|(name, _)| *name == tag) {
                Some((_, operations)) => operations.push(operation),
                None => tags.push((tag, vec![operation])),
            }
        }
    }
    tags.retain(|(_, operations)| !operations.is_empty());
    tags
}

/// A section for each tag.
pub(super) fn sections(contract: &Value, page: &mut Html) {
    for (tag, operations) in by_tag(contract) {
        page.anchored("section", &format!("tag-{tag}"), |section| {
            section.element("h2", |heading| heading.text(tag));
            let described = contract["tags"].as_array().into_iter().flatten();
            for described in described.filter(|known| text(known, "name") == tag) {
                section.element("p", |p| p.prose(text(described, "description")));
            }
            for operation in operations {
                section.anchored("article", &operation.id(), |article| show(operation, article));
            }
        });
    }
}

fn show(operation: Operation<'_>, page: &mut Html) {
    let body = operation.body;
    page.raw("<h3><span class=\"method\">");
    page.text(&operation.method.to_uppercase());
    page.raw("</span> ");
    page.code(operation.path);
    page.raw("</h3>\n");
    for member in ["summary", "description"] {
        if !text(body, member).is_empty() {
            page.element("p", |p| p.prose(text(body, member)));
        }
    }
    scopes(body, page);
    parameters(body, page);
    if let Some(content) = body["requestBody"]["content"].as_object() {
        page.raw("<h4>Body</h4>\n");
        for (kind, form) in content {
            page.element("p", |p| {
                p.code(kind);
                p.text(": ");
                schemas::kind(&form["schema"], p);
            });
        }
    }
    answers(body, page);
}

/// Which scopes open it: any one of them.
fn scopes(body: &Value, page: &mut Html) {
    page.raw("<p class=\"scopes\">");
    match body["security"].as_array().filter(|ways| !ways.is_empty()) {
        None => page.text("Open to everybody."),
        Some(ways) => {
            page.text("Needs ");
            for (index, way) in ways.iter().enumerate() {
                if index > 0 {
                    page.text(" or ");
                }
                let schemes = way.as_object();
                if schemes.is_none_or(serde_json::Map::is_empty) {
                    page.text("no credentials");
                }
                for (index, (scheme, scopes)) in schemes.into_iter().flatten().enumerate() {
                    if index > 0 {
                        page.text(" and ");
                    }
                    match scopes[0].as_str() {
                        Some(scope) => page.code(scope),
                        None => page.code(scheme),
                    }
                }
            }
            page.text(".");
        }
    }
    page.raw("</p>\n");
}

fn parameters(body: &Value, page: &mut Html) {
    let Some(parameters) = body["parameters"].as_array().filter(|list| !list.is_empty()) else {
        return;
    };
    page.raw("<h4>Parameters</h4>\n");
    page.table(&["Name", "In", "Type", "Meaning"], |rows| {
        for parameter in parameters {
            rows.element("tr", |row| {
                row.element("td", |cell| {
                    cell.code(text(parameter, "name"));
                    if parameter["required"] == true {
                        cell.raw(" <span class=\"required\">required</span>");
                    }
                });
                row.element("td", |cell| cell.text(text(parameter, "in")));
                row.element("td", |cell| schemas::kind(&parameter["schema"], cell));
                row.element("td", |cell| cell.prose(text(parameter, "description")));
            });
        }
    });
}

fn answers(body: &Value, page: &mut Html) {
    page.raw("<h4>Answers</h4>\n");
    page.table(&["Status", "Body", "Meaning"], |rows| {
        for (status, response) in body["responses"].as_object().into_iter().flatten() {
            rows.element("tr", |row| {
                row.element("td", |cell| cell.code(status));
                row.element("td", |cell| {
                    let contents = response["content"].as_object().into_iter().flatten();
                    for (index, (media_type, form)) in contents.enumerate() {
                        if index > 0 {
                            cell.text(", or ");
                        }
                        if media_type != "application/json" && media_type != "application/problem+json" {
                            cell.code(media_type);
                            cell.text(" ");
                        }
                        schemas::kind(&form["schema"], cell);
                    }
                });
                row.element("td", |cell| described(text(response, "description"), cell));
            });
        }
    });
}

/// A description in which the codes of problems lead to the catalogue.
fn described(description: &str, page: &mut Html) {
    if let Some(code) = Code::ALL.iter().find(|code| code.title() == description) {
        page.link(&format!("#{code}"), code.as_str());
        return;
    }
    for (index, word) in description.split(' ').enumerate() {
        if index > 0 {
            page.text(" ");
        }
        let bare = word.trim_end_matches([',', '.', ';', ':']);
        match Code::from_str(bare) {
            Ok(code) => {
                page.link(&format!("#{code}"), bare);
                page.text(word.strip_prefix(bare).unwrap_or_default());
            }
            Err(_plain_word) => page.text(word),
        }
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}
