//! Answers.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::problem::Problem;

#[derive(Debug)]
pub(in crate::http) struct JsonReply<T>(pub(in crate::http) T);

impl<T: Serialize> IntoResponse for JsonReply<T> {
    fn into_response(self) -> Response {
        let mut body = Vec::with_capacity(512);
        if let Err(error) = serde_json::to_writer(&mut body, &self.0) {
            tracing::error!(%error, "an answer could not be written as JSON");
            return Problem::internal().into_response();
        }
        let mut response = Response::new(Body::from(body));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        response
    }
}

/// A JSON answer with another status than 200 and the place of what it tells of.
#[derive(Debug)]
pub(in crate::http) struct Located<T> {
    pub(in crate::http) status: StatusCode,
    pub(in crate::http) location: String,
    pub(in crate::http) body: T,
}

impl<T: Serialize> IntoResponse for Located<T> {
    fn into_response(self) -> Response {
        let mut response = JsonReply(self.body).into_response();
        if response.status() != StatusCode::OK {
            return response;
        }
        *response.status_mut() = self.status;
        if let Ok(location) = HeaderValue::try_from(self.location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct Page<T> {
    /// What is on it.
    pub(in crate::http) items: Vec<T>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) next_cursor: Option<String>,
}
