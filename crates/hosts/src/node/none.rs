//! A server without a Bridge.

use futures_util::future::BoxFuture;

use super::{InvokeFailure, InvokeRequest, InvokeResult, NodeInfo, NodeLink};

/// There are no nodes, and none will come.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNodes;

impl NodeLink for NoNodes {
    fn nodes(&self) -> Vec<NodeInfo> {
        Vec::new()
    }

    fn invoke(&self, _request: InvokeRequest) -> BoxFuture<'_, Result<InvokeResult, InvokeFailure>> {
        Box::pin(std::future::ready(Err(InvokeFailure::NotConnected)))
    }

    fn cancel(&self, _node_id: &str, _invoke_id: &str) {}
}
