//! The actions, and who may see which session.

use std::{sync::Arc, time::Duration};

use countersign_config::settings::Tool;
use countersign_domain::{
    Access, AgentId, Authority, Belongs, KillCause, Principal, ProcessKind, ProcessStatus, Scope,
};
use countersign_ledger::{Listing, Page, ProcessSession, SessionFilter};

use super::{ProcessAction, ProcessCall, ProcessError, ProcessReply, Processes, paging, session::Session};

use crate::reply::StorageTrouble;

/// How long a killed session may take to end before the answer says that it still runs: `SIGTERM`, its grace, `SIGKILL`.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// Sessions read at once.
const PAGE: u32 = 500;
/// Most sessions in one answer, far above the runs that an agent may have.
const MOST_LISTED: usize = 5_000;

/// Whose sessions a caller sees.
#[derive(Debug)]
pub(super) struct SessionScope<'a> {
    agent: Option<AgentId>,
    /// Only those of agents that they have authority over.
    authority: &'a Authority,
}

impl SessionScope<'_> {
    fn has(&self, agent: &AgentId) -> bool {
        self.agent.as_ref().is_none_or(|wanted| wanted == agent)
            && self.authority.over(Belongs::To(agent)) == Access::Open
    }
}

impl Processes {
    /// Does what is asked of the process tool.
    ///
    /// # Errors
    /// [`ProcessError`] says why nothing was done.
    ///
    /// # Cancel safety
    /// Cancelled, it has done what it says or nothing; a session may still be about to end.
    #[crate::compiled_once]
    pub async fn call<'a>(
        self: &'a Arc<Self>,
        caller: &'a Principal,
        call: ProcessCall,
    ) -> Result<ProcessReply, ProcessError> {
        let ProcessCall { agent, action } = call;
        self.check_tool(caller, &agent)?;
        let session = match action.session() {
            Some(id) => {
                let scope = SessionScope {
                    agent: Some(agent.clone()),
                    authority: &caller.authority,
                };
                self.find_session(&scope, id).await?
            }
            None => return self.list_sessions(&agent).await,
        };
        match action {
            ProcessAction::List => self.list_sessions(&agent).await,
            ProcessAction::Poll { timeout, .. } => self.poll(caller, session, timeout).await,
            ProcessAction::Log { offset, limit, .. } => {
                let output = self.records.output_text(&session.run).await?;
                Ok(ProcessReply::Logged {
                    page: paging::page(&output.aggregated, offset, limit),
                    session: Box::new(self.session_view(session)),
                })
            }
            ProcessAction::Input { input, .. } => self.hand_input(caller, session, input).await,
            ProcessAction::Resize { size, .. } => self.resize(session, size).await,
            ProcessAction::Kill { .. } => self.kill_session(session).await.map(answer),
            ProcessAction::Clear { .. } if session.status() == ProcessStatus::Running => {
                Err(ProcessError::StillRuns(Box::new(self.session_view(session))))
            }
            ProcessAction::Clear { .. } => {
                self.retention.forget(vec![session.id.clone()]).await?;
                Ok(answer(self.session_view(session)))
            }
            ProcessAction::Remove { .. } => self.remove_session(session).await.map(answer),
        }
    }

    /// Sessions that the caller may see, newest first. Callers without `read` see those of one agent.
    ///
    /// # Errors
    /// [`ProcessError`] when the caller may not see them, or they cannot be read.
    #[crate::compiled_once]
    pub async fn sessions(
        &self,
        caller: &Principal,
        agent: Option<AgentId>,
        status: Option<ProcessStatus>,
        page: Page,
    ) -> Result<Listing<Session>, ProcessError> {
        let SessionScope { agent, authority } = self.session_scope(caller, agent)?;
        let agents = match &agent {
            Some(agent) => vec![agent.clone()],
            None => self.agents_with_sessions().await?,
        };
        for agent in &agents {
            self.retention.evict(agent).await;
        }
        let filter = SessionFilter {
            agent,
            status,
            authority: authority.clone(),
        };
        let listing = self
            .ledger
            .process_sessions(filter, page)
            .await
            .map_err(StorageTrouble::from)?;
        Ok(Listing {
            items: listing
                .items
                .into_iter()
                .map(|record| self.session_view(record))
                .collect(),
            next: listing.next,
        })
    }

    /// One session, if the caller may see it.
    ///
    /// # Errors
    /// [`ProcessError`] when they may not.
    #[crate::compiled_once]
    pub async fn session(
        &self,
        caller: &Principal,
        agent: Option<AgentId>,
        id: &str,
    ) -> Result<Session, ProcessError> {
        let scope = self.session_scope(caller, agent)?;
        let record = self.find_session(&scope, id).await?;
        Ok(self.session_view(record))
    }

    /// Whose sessions a caller sees.
    pub(super) fn session_scope<'a>(
        &self,
        caller: &'a Principal,
        agent: Option<AgentId>,
    ) -> Result<SessionScope<'a>, ProcessError> {
        let agent = if caller.has(Scope::Read) {
            agent
        } else {
            let agent = agent.unwrap_or_else(AgentId::main);
            self.check_tool(caller, &agent)?;
            Some(agent)
        };
        Ok(SessionScope {
            agent,
            authority: &caller.authority,
        })
    }

    /// Whether a caller may use the process tool for an agent under every policy that counts at this moment.
    fn check_tool(&self, caller: &Principal, agent: &AgentId) -> Result<(), ProcessError> {
        if !caller.may_act_for(agent) {
            return Err(ProcessError::AgentNotAllowed);
        }
        let now = self.policy.now();
        let denied_by = now.views().find_map(|view| {
            let tools = view.settings.policy.tool_policy(agent);
            tools.denied_by(Tool::Process).map(str::to_owned)
        });
        match denied_by {
            Some(key) => Err(ProcessError::ToolDenied { key }),
            None => Ok(()),
        }
    }

    /// A session in the scope that is still kept.
    pub(super) async fn find_session(
        &self,
        scope: &SessionScope<'_>,
        id: &str,
    ) -> Result<ProcessSession, ProcessError> {
        let found = self
            .ledger
            .process_session(id)
            .await
            .map_err(StorageTrouble::from)?;
        let found = found.filter(|record| scope.has(&record.run.agent));
        let record = found.ok_or(ProcessError::NotFound)?;
        let is_too_old = record.ended_at().is_some_and(|ended_at| {
            self.retention
                .kept(&record.run.agent)
                .is_too_old(ended_at, self.clock.now())
        });
        if is_too_old {
            self.retention.forget(vec![record.id]).await?;
            return Err(ProcessError::NotFound);
        }
        Ok(record)
    }

    /// How a session stands after something was done with it.
    pub(super) async fn session_again(&self, before: ProcessSession) -> Result<Session, ProcessError> {
        let now = self
            .ledger
            .process_session(&before.id)
            .await
            .map_err(StorageTrouble::from)?;
        // One that was forgotten meanwhile stands as it did.
        Ok(self.session_view(now.unwrap_or(before)))
    }

    pub(super) fn ended(&self, session: ProcessSession) -> ProcessError {
        ProcessError::Ended(Box::new(self.session_view(session)))
    }

    async fn agents_with_sessions(&self) -> Result<Vec<AgentId>, ProcessError> {
        let ids = self.ledger.session_ids().await.map_err(StorageTrouble::from)?;
        let mut agents: Vec<AgentId> = ids.into_iter().map(|(_, agent)| agent).collect();
        agents.sort();
        agents.dedup();
        Ok(agents)
    }

    async fn list_sessions(&self, agent: &AgentId) -> Result<ProcessReply, ProcessError> {
        self.retention.evict(agent).await;
        let mut sessions = Vec::new();
        let mut page = Page::first(PAGE);
        loop {
            let filter = SessionFilter {
                agent: Some(agent.clone()),
                ..SessionFilter::default()
            };
            let listing = self
                .ledger
                .process_sessions(filter, page)
                .await
                .map_err(StorageTrouble::from)?;
            sessions.extend(listing.items.into_iter().map(|record| self.session_view(record)));
            match listing.next {
                Some(cursor) if sessions.len() < MOST_LISTED => page.cursor = Some(cursor),
                Some(_) | None => return Ok(ProcessReply::List(sessions)),
            }
        }
    }

    /// Ends a session and waits for that, but not for ever.
    async fn kill_session(&self, session: ProcessSession) -> Result<Session, ProcessError> {
        let run_id = &session.run.id;
        let live = match session.kind {
            ProcessKind::Run => self.going(&session),
            ProcessKind::Leftovers => self.live.get(run_id),
        };
        let Some(live) = live else {
            return Err(self.ended(session));
        };
        live.kill(KillCause::Cancelled);
        let ended = match session.kind {
            ProcessKind::Run => tokio::time::timeout(KILL_TIMEOUT, live.ended()).await.map(drop),
            ProcessKind::Leftovers => tokio::time::timeout(KILL_TIMEOUT, self.live.is_gone(run_id)).await,
        };
        if ended.is_err() {
            tracing::warn!(run.id = %run_id, "a session that was killed has not ended yet");
        }
        self.session_again(session).await
    }

    async fn remove_session(&self, session: ProcessSession) -> Result<Session, ProcessError> {
        let id = session.id.clone();
        let session = if session.status() == ProcessStatus::Running {
            match self.kill_session(session).await {
                Ok(session) if session.status == ProcessStatus::Running => {
                    return Err(ProcessError::StillRuns(Box::new(session)));
                }
                Ok(session) => session,
                // It ended by itself just before.
                Err(ProcessError::Ended(session)) => *session,
                Err(error) => return Err(error),
            }
        } else {
            self.session_view(session)
        };
        self.retention.forget(vec![id]).await?;
        Ok(session)
    }
}

fn answer(session: Session) -> ProcessReply {
    ProcessReply::Session(Box::new(session))
}
