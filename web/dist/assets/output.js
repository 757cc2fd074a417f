import { J as byteSize, Q as visibleOutput, ct as Refused, dt as send, m as createVNode, ot as useRef, rt as useEffect, st as useState } from "./app.js";
// src/view/output.tsx
var PIECE_BYTES = 65536;
function Output({ run }) {
	const [text, setText] = useState("");
	const [state, setState] = useState("Loading the output …");
	const [hasMore, setMore] = useState(false);
	const read = useRef({
		offset: 0,
		decoder: new TextDecoder(),
		isOver: false
	});
	async function load() {
		setMore(false);
		const { current } = read;
		const { offset } = current;
		try {
			const response = await send("GET", `/v1/runs/${run.runId}/output`, { headers: {
				Range: `bytes=${offset}-${offset + PIECE_BYTES - 1}`,
				Accept: "*/*"
			} });
			const bytes = new Uint8Array(await response.arrayBuffer());
			if (current.isOver) return;
			const total = Number(response.headers.get("content-range")?.split("/")[1] ?? bytes.length);
			current.offset += bytes.length;
			const piece = visibleOutput(current.decoder.decode(bytes, { stream: current.offset < total }));
			setText((before) => before + piece);
			setMore(current.offset < total);
			setState(!total ? "No output." : current.offset < total ? `${byteSize(current.offset)} of ${byteSize(total)}` : byteSize(total));
		} catch (error) {
			if (current.isOver) return;
			const isEmpty = error instanceof Refused && error.status === 416;
			setState(isEmpty ? "No output." : error instanceof Refused ? error.sentence : "The output could not be loaded.");
			setMore(!isEmpty);
		}
	}
	useEffect(() => {
		load();
		return () => {
			read.current.isOver = true;
		};
	}, []);
	return createVNode("div", {
		class: "run-output",
		children: [
			text && createVNode("pre", {
				class: "output",
				tabIndex: 0,
				role: "group",
				"aria-label": "Output",
				children: text
			}),
			createVNode("p", {
				class: "hint",
				role: "status",
				children: state
			}),
			hasMore && createVNode("button", {
				type: "button",
				class: "more",
				onClick: () => void load(),
				children: "Show more output"
			})
		]
	});
}
export { Output as t };
