//! Authority in the signature: a handler that takes a [`Caller<S>`] cannot run for anybody without scope `S`, nor for a
//! token that is bound to agents. A handler of things that belong to agents says so by another extractor:
//! [`AgentCaller`] where the engine looks whose a thing is, [`CallerAtAgent`] where the path names the agent.

use std::{marker::PhantomData, ops::Deref, sync::Arc};

use axum::{
    extract::{FromRef, FromRequestParts, MatchedPath},
    http::{HeaderValue, header, request::Parts},
};

use countersign_domain::{AgentId, Principal, Scope};
use countersign_engine::reply::ExecError;
use countersign_ledger::auth::Throttle;

use crate::{
    accept::Accepted,
    admission::{Credentials, RequestSource},
    extract::{AgentScope, AtPath},
    problem::{Code, Problem},
};

/// Which scopes open an operation: any one of them.
pub(crate) trait Opens: Send + Sync + 'static {
    const ANY_OF: &'static [Scope];
    /// Whether there is an operation behind it, whose answer has a form.
    const LEADS_SOMEWHERE: bool = true;
}

macro_rules! opens {
    ($($(#[$meta:meta])* $name:ident = $($scope:ident)|+;)+) => {$(
        $(#[$meta])*
        #[derive(Debug)]
        pub(crate) struct $name;

        impl Opens for $name {
            const ANY_OF: &'static [Scope] = &[$(Scope::$scope),+];
        }
    )+};
}

opens! {
    Exec = Exec;
    Read = Read;
    Approve = Approve;
    Admin = Admin;
    /// `read`; an exec token sees its own
    ReadOrOwn = Read | Exec;
    /// `read`; an exec token sees its own, an approve token what it is asked about
    ReadOrAskedOrOwn = Read | Exec | Approve;
    ReadOrApprove = Read | Approve;
    ApproveOrAdmin = Approve | Admin;
    /// `exec` for its own, or `admin`
    ExecOrAdmin = Exec | Admin;
    RelayOrAdmin = Relay | Admin;
    /// Any live token.
    AnyScope = Exec | Relay | Read | Approve | Admin;
}

/// Any live token: for answers that only say that there is nothing here.
#[derive(Debug)]
pub(crate) struct Anybody;

impl Opens for Anybody {
    const ANY_OF: &'static [Scope] = AnyScope::ANY_OF;
    const LEADS_SOMEWHERE: bool = false;
}

macro_rules! callers {
    ($($(#[$meta:meta])* $name:ident;)+) => {$(
        $(#[$meta])*
        #[derive(Debug)]
        pub(crate) struct $name<S> {
            principal: Arc<Principal>,
            opened_by: PhantomData<S>,
        }

        impl<S> $name<S> {
            const fn new(principal: Arc<Principal>) -> Self {
                Self { principal, opened_by: PhantomData }
            }
        }

        impl<S> Deref for $name<S> {
            type Target = Principal;

            fn deref(&self) -> &Principal {
                &self.principal
            }
        }
    )+};
}

callers! {
    /// A caller who proved who they are, holds one of the scopes of `S`, and is bound to no agents: for what belongs to
    /// no agent.
    Caller;
    /// A caller who proved who they are and holds one of the scopes of `S`. They may be bound to agents: all that the
    /// handler does must go through an engine call that takes them as its caller.
    AgentCaller;
    /// A caller who proved who they are, holds one of the scopes of `S`, and has authority over the agent in the path;
    /// over everything where the path says `*`.
    CallerAtAgent;
}

impl<S, State> FromRequestParts<State> for Caller<S>
where
    S: Opens,
    State: Send + Sync,
    Arc<Throttle>: FromRef<State>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Problem> {
        let principal = admit::<S, State>(parts, state)?;
        if !principal.may_touch_what_is_of_no_agent() {
            return Err(bound_token());
        }
        check_form::<S>(parts)?;
        Ok(Self::new(principal))
    }
}

impl<S, State> FromRequestParts<State> for AgentCaller<S>
where
    S: Opens,
    State: Send + Sync,
    Arc<Throttle>: FromRef<State>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Problem> {
        let principal = admit::<S, State>(parts, state)?;
        check_form::<S>(parts)?;
        Ok(Self::new(principal))
    }
}

impl<S, State> FromRequestParts<State> for CallerAtAgent<S>
where
    S: Opens,
    State: Send + Sync,
    Arc<Throttle>: FromRef<State>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Problem> {
        let principal = admit::<S, State>(parts, state)?;
        let AtPath(scope) = AtPath::<AgentScope>::from_request_parts(parts, state).await?;
        match scope.agent() {
            Some(agent) => expect_authority(&principal, &agent)?,
            None if !principal.may_touch_what_is_of_no_agent() => return Err(bound_token()),
            None => {}
        }
        check_form::<S>(parts)?;
        Ok(Self::new(principal))
    }
}

/// Refuses a caller who is bound to other agents than one that the request names.
pub(crate) fn expect_authority(caller: &Principal, agent: &AgentId) -> Result<(), Problem> {
    if caller.may_act_for(agent) {
        Ok(())
    } else {
        Err(ExecError::AgentNotAllowed.into())
    }
}

/// The refusal of a token that is bound to agents where a thing belongs to none.
fn bound_token() -> Problem {
    Problem::new(
        Code::Forbidden,
        "the token is bound to agents, and this belongs to none of them; use one that was made without agents",
    )
}

/// Who sent a request, if they hold one of the scopes of `S`.
fn admit<S, State>(parts: &Parts, state: &State) -> Result<Arc<Principal>, Problem>
where
    S: Opens,
    Arc<Throttle>: FromRef<State>,
{
    let Some(origin) = parts.extensions.get::<RequestSource>() else {
        return Err(Problem::internal());
    };
    let principal = match &origin.credentials {
        Credentials::Valid(key) => key.principal(),
        Credentials::Wrong => {
            let throttle: Arc<Throttle> = Arc::from_ref(state);
            return Err(refuse_credentials(
                origin,
                &throttle,
                "the token is not valid, or no longer",
            ));
        }
        Credentials::Absent => return Err(unauthorized("a bearer token is needed")),
        // Not counted: nobody guesses a cookie, and a page whose sign-in ended must not lock its address out.
        Credentials::Ended => return Err(unauthorized("the browser is not signed in, or no longer")),
        Credentials::CookieAlone(_) => return Err(refuse_cookie_alone()),
        Credentials::ForeignPage => return Err(refuse_page()),
    };
    if !S::ANY_OF.iter().any(|scope| principal.has(*scope)) {
        return Err(forbidden::<S>());
    }
    Ok(Arc::clone(principal))
}

/// Operations whose answers have another form than JSON, or one that they choose themselves.
const OTHER_FORMS: [&str; 6] = [
    "/metrics",
    "/mcp",
    "/v1/events",
    "/v1/process/{sessionId}/stream",
    "/v1/runs/{runId}/output",
    "/v1/runs/{runId}/recording",
];

/// Refuses, before anything happens, a request that does not want the JSON that it would be answered with.
fn check_form<S: Opens>(parts: &Parts) -> Result<(), Problem> {
    let is_json = S::LEADS_SOMEWHERE
        && parts
            .extensions
            .get::<MatchedPath>()
            .is_some_and(|path| !OTHER_FORMS.contains(&path.as_str()));
    if is_json && !Accepted::of(&parts.headers).takes("application/json") {
        return Err(Problem::new(
            Code::NotAcceptable,
            "this is answered as application/json",
        ));
    }
    Ok(())
}

/// The refusal of a cookie without its second secret.
pub(crate) fn refuse_cookie_alone() -> Problem {
    Problem::new(
        Code::Forbidden,
        "a cookie alone opens nothing: send the csrfToken of the login as X-CSRF-Token",
    )
}

/// The refusal of a web page that is not ours.
pub(crate) fn refuse_page() -> Problem {
    Problem::new(
        Code::Forbidden,
        "this web page may not act for a browser that is signed in",
    )
}

/// The refusal of credentials that open nothing, which are counted: who guesses too often gets 429.
pub(crate) fn refuse_credentials(origin: &RequestSource, throttle: &Throttle, detail: &str) -> Problem {
    match throttle.count_failure(origin.address) {
        Ok(()) => unauthorized(detail),
        Err(limited) => Problem::limited(limited),
    }
}

/// Credentials are missing or open nothing.
pub(crate) fn unauthorized(detail: &str) -> Problem {
    Problem::new(Code::Unauthorized, detail).with_header(
        header::WWW_AUTHENTICATE,
        HeaderValue::from_static("Bearer realm=\"countersign\""),
    )
}

fn forbidden<S: Opens>() -> Problem {
    let names: Vec<&str> = S::ANY_OF.iter().map(|scope| scope.as_str()).collect();
    let needed = names.join(" or ");
    Problem::new(Code::Forbidden, format!("a token with scope {needed} is needed"))
        .with(|body| body.required_scope = S::ANY_OF.first().map(|scope| (*scope).into()))
}
