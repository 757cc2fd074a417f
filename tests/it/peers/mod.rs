//! The product itself, in two generations, at the other end of every wire: its node hosts and its command line with our
//! server, our node with its gateways, its client of the approvals socket with ours. And clients that
//! agents live in, with our hook and our MCP server. `dev/peers` installs them.

mod agent;
mod claude_code;
mod codex;
mod gateways;
mod gemini;
mod model;
mod node_hosts;
mod opencode;
mod operator;
mod peer;
mod product_cli;
mod quickstart;
mod socket_client;

use peer::{Generation, Peers, patiently};
