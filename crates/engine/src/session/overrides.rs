//! Reading and changing what a session overrides. Each change is on record before it counts.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use countersign_config::{
    session::{
        ExecOverrides, Overrides, SessionName, SetBy,
        gates::{self, Gate},
        sender::Sender,
    },
    settings::ElevatedLevel,
};
use countersign_domain::Principal;
use countersign_ledger::events::{Event, EventKind, Subject};

use super::{SessionError, Sessions, expect_own};

use crate::{
    evaluator::{asked, policy_now::PolicyNow},
    reply::StorageTrouble,
};

/// Overrides in the place of those that a session has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewOverrides {
    /// What `/exec` would set.
    pub exec: ExecOverrides,
    /// What `/elevated` would set; `None` for nothing.
    pub elevated: Option<ElevatedLevel>,
}

impl Sessions {
    /// What a session overrides, as it was set.
    ///
    /// # Errors
    /// [`SessionError::AgentNotAllowed`] for a caller that is bound to other agents.
    pub fn overrides(&self, caller: &Principal, name: &SessionName) -> Result<Overrides, SessionError> {
        expect_own(caller, name)?;
        Ok(self.state.overrides(name))
    }

    /// Replaces what a session overrides. Elevation takes what it takes in chat: the caller is its sender.
    ///
    /// # Errors
    /// [`SessionError`] says why nothing was changed.
    #[crate::compiled_once]
    pub async fn put_overrides<'a>(
        self: &'a Arc<Self>,
        caller: &'a Principal,
        name: &SessionName,
        new: NewOverrides,
    ) -> Result<Overrides, SessionError> {
        expect_own(caller, name)?;
        let sender = asked::sender_of(&caller.actor);
        let NewOverrides { exec, elevated } = new;
        let mut overrides = Overrides::default().with_exec(&exec);
        if let Some(level) = elevated {
            let gates = closed_gates(&self.policy.now(), name, level, &sender);
            if !gates.is_empty() {
                return Err(SessionError::ElevatedUnavailable { gates });
            }
            overrides = overrides.with_elevated(level, sender);
        }
        let by = SetBy {
            actor: caller.actor.clone(),
            sender: None,
        };
        self.change_overrides(name, by, move |_before| overrides).await
    }

    /// Makes a session override nothing.
    ///
    /// # Errors
    /// [`SessionError`] says why nothing was changed.
    #[crate::compiled_once]
    pub async fn clear_overrides<'a>(
        self: &'a Arc<Self>,
        caller: &'a Principal,
        name: &SessionName,
    ) -> Result<(), SessionError> {
        self.put_overrides(caller, name, NewOverrides::default())
            .await
            .map(|_none| ())
    }

    /// Changes what a session overrides, in a task of its own: what is on record counts even if the caller left.
    pub(super) async fn change_overrides(
        self: &Arc<Self>,
        name: &SessionName,
        by: SetBy,
        change: impl FnOnce(Overrides) -> Overrides + Send + 'static,
    ) -> Result<Overrides, SessionError> {
        let (sessions, name) = (Arc::clone(self), name.clone());
        let task = self
            .lifecycle
            .spawn_launch(async move { sessions.record_and_change(name, by, change).await });
        task.await
            .unwrap_or(Err(StorageTrouble::Unavailable))
            .map_err(SessionError::from)
    }

    async fn record_and_change(
        &self,
        name: SessionName,
        by: SetBy,
        change: impl FnOnce(Overrides) -> Overrides,
    ) -> Result<Overrides, StorageTrouble> {
        let _alone = self.changes.lock().await;
        let before = self.state.overrides(&name);
        let mut after = change(before.clone());
        if after.exec == before.exec && after.elevated == before.elevated {
            return Ok(before);
        }
        let actor = by.actor.clone();
        after.set = (!after.is_empty()).then(|| (by, self.clock.now()));
        let event = Event {
            subject: Subject {
                agent: Some(name.agent.clone()),
                session: Some(name.key.clone()),
                ..Subject::default()
            },
            kind: EventKind::SessionChanged {
                overrides: to_json(&name, &after),
                by: actor.clone(),
            },
        };
        self.ledger.record(event, actor).await?;
        self.state.lock().set_overrides(&name, after.clone());
        Ok(after)
    }
}

/// The gates that a level needs and a sender finds closed, in anything that has to let a call through.
pub(super) fn closed_gates(
    now: &PolicyNow,
    name: &SessionName,
    level: ElevatedLevel,
    sender: &Sender,
) -> Vec<Gate> {
    if level == ElevatedLevel::Off {
        return Vec::new();
    }
    let mut gates = Vec::new();
    for view in now.views() {
        for gate in gates::closed(&view.settings.policy, &name.agent, sender) {
            if !gates.contains(&gate) {
                gates.push(gate);
            }
        }
    }
    gates
}

/// Overrides as the event has them: the object of the API.
fn to_json(name: &SessionName, overrides: &Overrides) -> Value {
    let ExecOverrides {
        host,
        security,
        ask,
        node,
    } = &overrides.exec;
    let mut members = Map::new();
    let mut put = |member: &str, value: Option<Value>| {
        members.extend(value.map(|value| (member.to_owned(), value)));
    };
    put("sessionKey", Some(json!(name.key)));
    put("host", host.map(|host| json!(host)));
    put("security", security.map(|security| json!(security)));
    put("ask", ask.map(|ask| json!(ask)));
    put("node", node.as_ref().map(|node| json!(node)));
    put("elevated", Some(json!(overrides.level())));
    if let Some((SetBy { actor, sender }, at)) = &overrides.set {
        let mut by = json!({ "kind": actor.kind, "id": actor.id, "name": actor.name });
        if let (Some(sender), Value::Object(by)) = (sender, &mut by) {
            let mut sender_json = json!({ "provider": sender.provider(), "id": sender.id() });
            if let (Some(name), Value::Object(sender_json)) = (sender.name(), &mut sender_json) {
                sender_json.insert("name".to_owned(), json!(name));
            }
            by.insert("sender".to_owned(), sender_json);
        }
        put("setBy", Some(by));
        put("setAtMs", Some(json!(at.get())));
    }
    Value::Object(members)
}
