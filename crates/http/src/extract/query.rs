//! Query parameters: every one known, given once, and of its type.

use std::str::FromStr;

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
};

use super::words;

use crate::problem::{Code, Problem};

/// The query of a request.
#[derive(Debug)]
pub(crate) struct QueryOf<T>(pub(crate) T);

/// A query that knows its parameters.
pub(crate) trait QueryForm: Sized {
    /// Takes what it knows; what it leaves is refused.
    fn read(parameters: &mut Parameters) -> Result<Self, Problem>;
}

/// No parameters at all.
impl QueryForm for () {
    fn read(_parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(())
    }
}

/// The parameters that nobody has taken yet.
#[derive(Debug)]
pub(crate) struct Parameters {
    given: Vec<(String, String)>,
    /// The names that the query knows.
    known: Vec<&'static str>,
}

impl Parameters {
    fn of(parts: &Parts) -> Result<Self, Problem> {
        let Query(given) = Query::try_from_uri(&parts.uri)
            .map_err(|_malformed| Problem::new(Code::InvalidRequest, "the query cannot be read"))?;
        Ok(Self {
            given,
            known: Vec::new(),
        })
    }

    /// Refuses what is left.
    fn all_taken(&self) -> Result<(), Problem> {
        self.given.first().map_or(Ok(()), |(name, _)| {
            let message = words::unknown("query parameter", name, &self.known);
            Err(Problem::field(name.as_str(), message))
        })
    }

    /// Takes a parameter as text.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        self.known.push(name);
        let Some(index) = self.given.iter().position(|(key, _)| key == name) else {
            return Ok(None);
        };
        let (_, value) = self.given.swap_remove(index);
        if self.given.iter().any(|(key, _)| key == name) {
            return Err(Problem::field(name, "given more than once"));
        }
        Ok(Some(value))
    }

    /// Takes a parameter as a value of its type.
    pub(crate) fn value<T>(&mut self, name: &'static str) -> Result<Option<T>, Problem>
    where
        T: FromStr,
        T::Err: std::fmt::Display,
    {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|error: T::Err| {
            Problem::field(name, words::with_unit(name, words::of_text(&error.to_string())))
        })
    }
}

impl<T: QueryForm, State: Send + Sync> FromRequestParts<State> for QueryOf<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &State) -> Result<Self, Problem> {
        let mut parameters = Parameters::of(parts)?;
        let form = T::read(&mut parameters)?;
        parameters.all_taken().map(|()| Self(form))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;
    use countersign_domain::{AgentId, Host};

    #[derive(Debug, PartialEq)]
    struct Sample {
        agent: Option<AgentId>,
        host: Option<Host>,
        limit: Option<u32>,
    }

    impl QueryForm for Sample {
        fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
            Ok(Self {
                agent: parameters.value("agentId")?,
                host: parameters.value("host")?,
                limit: parameters.value("limit")?,
            })
        }
    }

    async fn read(query: &str) -> Result<Sample, String> {
        let (mut parts, ()) = Request::builder()
            .uri(format!("/x{query}"))
            .body(())
            .unwrap()
            .into_parts();
        match QueryOf::<Sample>::from_request_parts(&mut parts, &()).await {
            Ok(QueryOf(sample)) => Ok(sample),
            Err(problem) => Err(problem.to_json("/x", "q")["detail"].as_str().unwrap().to_owned()),
        }
    }

    #[tokio::test]
    async fn known_parameters_are_parsed_and_everything_else_refused() {
        let agent = AgentId::parse("a.b").unwrap();
        assert_eq!(
            read("?agentId=a%2Eb&host=node&limit=7").await,
            Ok(Sample {
                agent: Some(agent),
                host: Some(Host::Node),
                limit: Some(7)
            })
        );
        assert_eq!(
            read("").await,
            Ok(Sample {
                agent: None,
                host: None,
                limit: None
            })
        );
        assert_eq!(
            read("?agent=x").await.unwrap_err(),
            "agent: unknown query parameter; did you mean agentId?"
        );
        assert_eq!(
            read("?limit=1&limit=2").await.unwrap_err(),
            "limit: given more than once"
        );
        assert_eq!(
            read("?limit=x").await.unwrap_err(),
            "limit: expected a whole number"
        );
        assert_eq!(
            read("?host=build-01").await.unwrap_err(),
            "host: expected sandbox, gateway or node"
        );
    }
}
