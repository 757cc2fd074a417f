//! Where others find things of this server.

use std::{borrow::Cow, sync::Arc};

use countersign_domain::{ApprovalId, RunId};
use countersign_ledger::events::{EventType, Publication};

use crate::peer::Endpoint;

/// What links begin with; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Links {
    /// `[http] public_url`, without a slash at its end.
    public: Option<Arc<str>>,
    /// The address that was bound, as it opens on this machine.
    bound: Arc<str>,
}

impl Links {
    pub(crate) fn new(public_url: Option<&str>, endpoint: Endpoint) -> Self {
        Self {
            public: public_url.map(Arc::from),
            bound: endpoint.local_url().into(),
        }
    }

    /// A path for the caller of this request: without `[http] public_url` relative to the address that they used.
    pub(crate) fn place(&self, path: &str) -> String {
        format!("{}{path}", self.public.as_deref().unwrap_or_default())
    }

    /// A path for anybody on this machine, or under `[http] public_url` for anybody.
    pub(crate) fn absolute(&self, path: &str) -> String {
        format!("{}{path}", self.public.as_deref().unwrap_or(&self.bound))
    }

    /// The page where a person answers a question.
    pub(crate) fn approval(&self, id: &ApprovalId) -> String {
        self.absolute(&format!("/a/{id}"))
    }

    /// How a run stands.
    pub(crate) fn run(&self, id: &RunId) -> String {
        self.absolute(&run_path(id))
    }

    /// The same for the caller who asked for the run.
    pub(crate) fn place_of_run(&self, id: &RunId) -> String {
        self.place(&run_path(id))
    }

    /// The data of an event, with the links to a question and to its run: no record has an address of this server.
    pub(crate) fn on_event<'a>(&self, event: &'a Publication) -> Cow<'a, str> {
        let Publication {
            seq: _,
            event_type,
            subject,
            data,
        } = event;
        match (event_type, &subject.approval_id, data.strip_suffix('}')) {
            (EventType::ApprovalRequested, Some(id), Some(members)) => {
                let approval = serde_json::Value::from(self.approval(id));
                let status = subject
                    .run_id
                    .as_ref()
                    .map(|run| serde_json::Value::from(self.run(run)));
                let status = status.map_or_else(String::new, |url| format!(",\"statusUrl\":{url}"));
                Cow::Owned(format!("{members},\"approvalUrl\":{approval}{status}}}"))
            }
            _ => Cow::Borrowed(data),
        }
    }
}

fn run_path(id: &RunId) -> String {
    format!("/v1/runs/{id}")
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::peer::Transport;

    fn links(public_url: Option<&str>, bound: &str) -> Links {
        let endpoint = Endpoint {
            address: bound.parse::<SocketAddr>().unwrap(),
            transport: Transport::Plain,
        };
        Links::new(public_url, endpoint)
    }

    #[test]
    fn a_link_opens_where_it_is_shown() {
        let id = ApprovalId::parse("a1").unwrap();
        let run = RunId::parse("r1").unwrap();
        let here = links(None, "0.0.0.0:80");
        assert_eq!(here.approval(&id), "http://127.0.0.1:80/a/a1");
        assert_eq!(here.place_of_run(&run), "/v1/runs/r1");
        let public = links(Some("https://c.example"), "127.0.0.1:1");
        assert_eq!(public.approval(&id), "https://c.example/a/a1");
        assert_eq!(public.run(&run), "https://c.example/v1/runs/r1");
        assert_eq!(public.place_of_run(&run), "https://c.example/v1/runs/r1");
    }
}
