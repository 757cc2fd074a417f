//! Fills `page.html` in. Shared by the build and the tests of the page.

#[path = "chapters.rs"]
mod chapters;

use std::collections::BTreeMap;

use minijinja::{Environment, Error, Value, context, syntax::SyntaxConfig, value::Serde};
use serde_json::Value as Json;

pub(crate) use chapters::CHAPTERS;

/// The page from the contract and the text of the catalogue of errors. All that is filled in is escaped.
pub(crate) fn render(contract: Json, errors: &str) -> Result<String, Error> {
    let codes: Vec<Value> = errors.lines().filter_map(row).collect();
    let operations = operations(&contract);
    let usual = usual(&operations);
    let chapters = chapters(operations, &usual);
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?,
    );
    environment.set_formatter(|out, _state, value| {
        if value.is_undefined() || value.is_none() {
            return Ok(());
        }
        // No more than text and a quoted attribute need: the page stays small.
        let text = value.to_string();
        if value.is_safe() {
            return Ok(out.write_str(&text)?);
        }
        let escapes = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;")];
        for piece in text.split_inclusive(escapes.map(|(character, _)| character)) {
            let escaped = escapes
                .iter()
                .find_map(|(character, escaped)| Some((piece.strip_suffix(*character)?, *escaped)));
            let (plain, escaped) = escaped.unwrap_or((piece, ""));
            out.write_str(plain)?;
            out.write_str(escaped)?;
        }
        Ok(())
    });
    let usual = shown(usual.into_iter());
    let values = context! { codes, chapters, usual, contract => Serde(contract) };
    let page = environment.render_named_str("page.html", include_str!("page.html"), values)?;
    // Nothing is shown for a line break between two elements.
    Ok(page.replace(">\n<", "><"))
}

/// A row of the catalogue.
fn row(line: &str) -> Option<Value> {
    let cells: Vec<&str> = line
        .strip_prefix("| ")?
        .strip_suffix(" |")?
        .split(" | ")
        .collect();
    let [status, code, title, again, advice] = *cells.as_slice() else {
        return None;
    };
    let code = code.strip_prefix('`')?.strip_suffix('`')?;
    Some(context! { status, code, title, again, advice => advice.replace("\\|", "|") })
}

/// Longer examples of answers stand in the contract alone, but for those that every client reads.
const LONGEST_ANSWER: usize = 100;
const IN_FULL: [&str; 2] = ["exec", "get_run"];

/// A status and the codes that it may have.
type Refusal<'a> = (&'a str, &'a str);

fn shown<'a>(refusals: impl Iterator<Item = Refusal<'a>>) -> Vec<Value> {
    let shown = refusals.map(|(status, codes)| context! { status, codes });
    shown.collect()
}

/// The refusals that most operations have, by status.
fn usual<'a>(operations: &[Operation<'a>]) -> Vec<Refusal<'a>> {
    let mut counts = BTreeMap::new();
    for refusal in operations.iter().flat_map(Operation::refusals) {
        *counts.entry(refusal).or_insert(0_usize) += 1;
    }
    let most = counts
        .into_iter()
        .filter(|(_, count)| count * 2 > operations.len());
    most.map(|(refusal, _)| refusal).collect()
}

/// One operation of the contract with where it stands.
struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    of: &'a Json,
}

impl<'a> Operation<'a> {
    fn name(&self) -> &str {
        self.of["operationId"].as_str().unwrap_or_default()
    }

    /// What the page shows of it. Refusals in `usual` stand there once for all operations.
    fn value(&self, usual: &[Refusal<'_>]) -> Value {
        let own = self.refusals().filter(|refusal| !usual.contains(refusal));
        context! {
            method => self.method.to_uppercase(),
            path => self.path,
            of => Serde(self.of.clone()),
            call => self.call(),
            answers => self.answers(),
            refusals => shown(own),
        }
    }

    /// Each status from 400 on with the codes that it may have.
    fn refusals(&self) -> impl Iterator<Item = Refusal<'a>> + use<'a> {
        let responses = self.of["responses"].as_object().into_iter().flatten();
        responses
            .filter(|(status, _)| status.as_str() >= "4")
            .map(|(status, response)| {
                (
                    status.as_str(),
                    response["description"].as_str().unwrap_or_default(),
                )
            })
    }

    /// The command that calls it, with the function of the conventions.
    fn call(&self) -> String {
        let scopes = self.of["security"].as_array().into_iter().flatten();
        let mut scopes = scopes.filter_map(|way| way.as_object()?.values().next()?.get(0)?.as_str());
        let token = match scopes.next() {
            Some("exec") | None => "gateway",
            Some(_) => "operator",
        };
        let place = self.path.replace('{', "$").replace('}', "");
        let quoted = if place.contains('$') {
            format!("\"{place}\"")
        } else {
            place
        };
        let mut call = format!("api {token} {quoted}");
        let example = self
            .of
            .pointer("/requestBody/content")
            .and_then(Json::as_object)
            .into_iter()
            .flat_map(|forms| forms.values())
            .find_map(|form| form["examples"].as_object()?.values().next()?.get("value"));
        let has_other_method = match self.method {
            "get" => false,
            "post" => example.is_none(),
            _ => true,
        };
        if has_other_method {
            call.push_str(" -X ");
            call.push_str(&self.method.to_uppercase());
        }
        if let Some(body) = example {
            call.push_str(" -d '");
            call.push_str(&body.to_string().replace('\'', "'\\''"));
            call.push('\'');
        }
        call
    }

    /// Every example of an answer: its status, what it is an example of, and its text.
    fn answers(&self) -> Vec<Value> {
        let mut answers = Vec::new();
        for (status, response) in self.of["responses"].as_object().into_iter().flatten() {
            let forms = response["content"].as_object().into_iter().flatten();
            for (_, form) in forms {
                for example in form["examples"]
                    .as_object()
                    .into_iter()
                    .flat_map(|all| all.values())
                {
                    let value = &example["value"];
                    let text = match value {
                        Json::String(text) => text.clone(),
                        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                            serde_json::to_string_pretty(value).unwrap_or_default()
                        }
                    };
                    if text.len() > LONGEST_ANSWER && !IN_FULL.contains(&self.name()) {
                        continue;
                    }
                    answers.push(context! { status, summary => example["summary"].as_str(), text });
                }
            }
        }
        answers
    }
}

/// All operations of the contract.
fn operations(contract: &Json) -> Vec<Operation<'_>> {
    let paths = contract["paths"].as_object().into_iter().flatten();
    paths
        .flat_map(|(path, item)| {
            let methods = item.as_object().into_iter().flatten();
            methods.map(move |(method, of)| Operation { method, path, of })
        })
        .collect()
}

/// The chapters with their operations. What stands in none comes last.
fn chapters(mut operations: Vec<Operation<'_>>, usual: &[Refusal<'_>]) -> Vec<Value> {
    let mut all = Vec::new();
    for chapter in CHAPTERS {
        let mut found = Vec::new();
        for name in chapter.operations {
            if let Some(at) = operations.iter().position(|operation| operation.name() == *name) {
                found.push(operations.remove(at).value(usual));
            }
        }
        all.push(
            context! { id => chapter.id, title => chapter.title, text => chapter.text, operations => found },
        );
    }
    if !operations.is_empty() {
        let rest: Vec<Value> = operations
            .iter()
            .map(|operation| operation.value(usual))
            .collect();
        all.push(context! { id => "more", title => "More", text => "", operations => rest });
    }
    all
}
