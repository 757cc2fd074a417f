// node_modules/preact/src/constants.js
var RESET_MODE = -161;
var SVG_NAMESPACE = "http://www.w3.org/2000/svg";
var XHTML_NAMESPACE = "http://www.w3.org/1999/xhtml";
var MATH_NAMESPACE = "http://www.w3.org/1998/Math/MathML";
var VNODE_MARKER = Symbol.for("pv");
var EMPTY_OBJ = {};
var EMPTY_ARR = [];
var MATHML_TOKEN_ELEMENTS = /^m(i|n|o|s|text|space)$/;
// node_modules/preact/src/util.js
var isArray$1 = Array.isArray;
var slice = EMPTY_ARR.slice;
var assign = Object.assign;
function removeNode(node) {
	if (node && node.parentNode) node.remove();
}
// node_modules/preact/src/diff/catch-error.js
function _catchError(error, vnode, oldVNode, errorInfo) {
	let component, ctor, handled;
	for (; vnode = vnode._parent;) if ((component = vnode._component) && !(component._bits & 1)) {
		component._bits |= 4;
		try {
			ctor = component.constructor;
			if (handled = ctor && ctor.getDerivedStateFromError) component.setState(ctor.getDerivedStateFromError(error));
			if (component.componentDidCatch) {
				component.componentDidCatch(error, errorInfo || {});
				handled = 1;
			}
			if (handled && component._bits & 8) {
				component._bits |= 2;
				return;
			}
		} catch (e) {
			error = e;
		}
	}
	resetRenderCount();
	throw error;
}
// node_modules/preact/src/options.js
var options$1 = { _catchError };
// node_modules/preact/src/create-element.js
var vnodeId$1 = 0;
function createVNode$1(type, props, key, ref, original) {
	const vnode = {
		type,
		props,
		key,
		ref,
		_children: null,
		_parent: null,
		_depth: 0,
		_dom: null,
		_component: null,
		constructor: VNODE_MARKER,
		_original: original || ++vnodeId$1,
		_index: -1,
		_flags: 0
	};
	if (!original && options$1.vnode) options$1.vnode(vnode);
	return vnode;
}
function Fragment(props) {
	return props.children;
}
// node_modules/preact/src/component.js
function BaseComponent(props, context) {
	this.props = props;
	this.context = context;
	this._bits = 0;
}
BaseComponent.prototype.setState = function(update, callback) {
	let s = this._nextState;
	if (!s || s == this.state) s = this._nextState = assign({}, this.state);
	if (typeof update == "function") update = update(assign({}, s), this.props);
	if (update) assign(s, update);
	else return;
	if (this._vnode) {
		if (callback) this._stateCallbacks.push(callback);
		enqueueRender(this);
	}
};
BaseComponent.prototype.forceUpdate = function(callback) {
	if (this._vnode) {
		this._bits |= 4;
		if (callback) this._renderCallbacks.push(callback);
		enqueueRender(this);
	}
};
BaseComponent.prototype.render = Fragment;
function getDomSibling(vnode, childIndex) {
	if (childIndex == null) return vnode._parent && getDomSibling(vnode._parent, vnode._index + 1);
	let sibling;
	for (; childIndex < vnode._children.length; childIndex++) {
		sibling = vnode._children[childIndex];
		if (sibling && sibling._dom) return sibling._dom;
	}
	return typeof vnode.type == "function" && !vnode.props._parentDom ? getDomSibling(vnode) : null;
}
function renderComponent(component) {
	const oldVNode = component._vnode, oldDom = oldVNode._dom, commitQueue = [], refQueue = [];
	const parentDom = component._parentDom;
	if (parentDom) {
		const newVNode = assign({ constructor: VNODE_MARKER }, oldVNode);
		newVNode._original = oldVNode._original + 1;
		if (options$1.vnode) options$1.vnode(newVNode);
		diff(parentDom, newVNode, oldVNode, component._globalContext, parentDom.namespaceURI, oldVNode._flags & 32 ? [oldDom] : null, commitQueue, oldDom || getDomSibling(oldVNode), oldVNode._flags & 32, refQueue);
		newVNode._original = oldVNode._original;
		newVNode._parent._children[newVNode._index] = newVNode;
		commitRoot(commitQueue, newVNode, refQueue);
		oldVNode._parent = oldVNode._dom = null;
		if (newVNode._dom != oldDom) updateParentDomPointers(newVNode);
	}
}
function updateParentDomPointers(vnode) {
	if ((vnode = vnode._parent) && vnode._component && !vnode.props._parentDom) {
		vnode._dom = null;
		vnode._children.some((child) => child && (vnode._dom = child._dom));
		return updateParentDomPointers(vnode);
	}
}
var rerenderQueue = [];
var prevDebounce;
var rerenderCount = 0;
function resetRenderCount() {
	rerenderCount = 0;
}
function enqueueRender(c) {
	if (!(c._bits & 8) && (c._bits |= 8, rerenderQueue.push(c), !rerenderCount++) || prevDebounce != options$1.debounceRendering) {
		prevDebounce = options$1.debounceRendering;
		(prevDebounce || queueMicrotask)(process);
	}
}
var depthSort = (a, b) => a._vnode._depth - b._vnode._depth;
function process() {
	try {
		let c, l = 1;
		while (rerenderQueue.length) {
			if (rerenderQueue.length > l) rerenderQueue.sort(depthSort);
			c = rerenderQueue.shift();
			l = rerenderQueue.length;
			if (c._bits & 8) renderComponent(c);
		}
	} finally {
		if (rerenderCount = rerenderQueue.length) (prevDebounce || queueMicrotask)(process);
	}
}
// node_modules/preact/src/diff/children.js
function diffChildren(parentDom, renderResult, newParentVNode, oldParentVNode, globalContext, namespace, excessDomChildren, commitQueue, oldDom, isHydrating, refQueue) {
	let i, oldVNode, childVNode, newDom, firstChildDom;
	let oldChildren = oldParentVNode._children || EMPTY_ARR;
	let newChildrenLength = renderResult.length;
	oldDom = constructNewChildrenArray(newParentVNode, renderResult, oldChildren, oldDom, newChildrenLength);
	for (i = 0; i < newChildrenLength; i++) {
		childVNode = newParentVNode._children[i];
		if (childVNode == null) continue;
		oldVNode = ~childVNode._index && oldChildren[childVNode._index] || EMPTY_OBJ;
		childVNode._index = i;
		let result = diff(parentDom, childVNode, oldVNode, globalContext, namespace, excessDomChildren, commitQueue, oldDom, isHydrating, refQueue);
		newDom = childVNode._dom;
		if (oldVNode.ref != childVNode.ref || oldVNode._flags & 8) {
			if (oldVNode.ref) applyRef(oldVNode.ref, null, childVNode, oldVNode);
			if (childVNode.ref) refQueue.push(childVNode.ref, childVNode._component || newDom, childVNode);
		}
		firstChildDom = firstChildDom || newDom;
		if (childVNode._flags & 4) {
			oldDom = insert(childVNode, oldDom, parentDom, !oldVNode._original);
			if (oldVNode._dom) oldVNode._dom = null;
		} else if (typeof childVNode.type == "function" && result !== void 0) oldDom = result;
		else if (newDom) oldDom = newDom.nextSibling;
		childVNode._flags &= -21;
	}
	newParentVNode._dom = firstChildDom;
	return oldDom;
}
function constructNewChildrenArray(newParentVNode, renderResult, oldChildren, oldDom, newChildrenLength) {
	let i;
	let childVNode;
	let oldVNode;
	let oldChildrenLength = oldChildren.length, remainingOldChildren = oldChildrenLength;
	let skew = 0;
	let moved = 0;
	let newChildren = newParentVNode._children = Array(newChildrenLength);
	for (i = 0; i < newChildrenLength; i++) {
		childVNode = renderResult[i];
		if (childVNode == null || typeof childVNode == "boolean" || typeof childVNode == "function") {
			newChildren[i] = null;
			continue;
		} else if (typeof childVNode != "object" || childVNode.constructor === String) childVNode = newChildren[i] = createVNode$1(null, childVNode);
		else if (isArray$1(childVNode)) childVNode = newChildren[i] = createVNode$1(Fragment, { children: childVNode });
		else if (childVNode.constructor === VNODE_MARKER && childVNode._depth) childVNode = newChildren[i] = createVNode$1(childVNode.type, childVNode.props, childVNode.key, childVNode.ref, childVNode._original);
		else newChildren[i] = childVNode;
		const skewedIndex = i + skew;
		childVNode._parent = newParentVNode;
		childVNode._depth = newParentVNode._depth + 1;
		const matchingIndex = childVNode._index = findMatchingIndex(childVNode, oldChildren, skewedIndex, remainingOldChildren);
		oldVNode = null;
		if (~matchingIndex) {
			oldVNode = oldChildren[matchingIndex];
			remainingOldChildren--;
			if (oldVNode) oldVNode._flags |= 2;
		}
		if (!oldVNode || !oldVNode._original) {
			if (!~matchingIndex) {
				if (newChildrenLength > oldChildrenLength) skew--;
				else if (newChildrenLength < oldChildrenLength) skew++;
			}
			if (typeof childVNode.type != "function") childVNode._flags |= 4;
		} else {
			childVNode._flags |= 16;
			if (matchingIndex == skewedIndex - 1) skew--;
			else if (matchingIndex == skewedIndex + 1) skew++;
			else if (matchingIndex != skewedIndex) {
				if (matchingIndex > skewedIndex) skew--;
				else skew++;
				moved = 1;
			}
		}
	}
	if (moved) {
		let tails = [];
		let lisLengths = [];
		for (i = 0; i < newChildrenLength; i++) {
			childVNode = newChildren[i];
			if (childVNode && childVNode._flags & 16) {
				skew = 0;
				let hi = tails.length;
				while (skew < hi) {
					const mid = skew + hi >> 1;
					if (tails[mid] < childVNode._index) skew = mid + 1;
					else hi = mid;
				}
				tails[skew] = childVNode._index;
				lisLengths[i] = skew + 1;
			}
		}
		skew = tails.length;
		while (i--) if (lisLengths[i]) {
			if (lisLengths[i] == skew) skew--;
			else newChildren[i]._flags |= 4;
		}
	}
	if (remainingOldChildren) for (i = 0; i < oldChildrenLength; i++) {
		oldVNode = oldChildren[i];
		if (oldVNode && !(oldVNode._flags & 2)) {
			if (oldVNode._dom == oldDom) oldDom = getDomSibling(oldVNode);
			unmount(oldVNode, oldVNode);
		}
	}
	return oldDom;
}
function insert(parentVNode, oldDom, parentDom, isMounting) {
	if (typeof parentVNode.type == "function") {
		if (parentVNode.props._parentDom) return oldDom;
		let children = parentVNode._children;
		if (children) {
			for (let i = 0; i < children.length; i++) if (children[i]) {
				children[i]._parent = parentVNode;
				oldDom = insert(children[i], oldDom, parentDom, false);
			}
		}
		return oldDom;
	} else {
		if (oldDom && !oldDom.parentNode) {
			oldDom = getDomSibling(parentVNode);
			if (oldDom && !oldDom.parentNode) oldDom = null;
		}
		let dom = parentVNode._dom;
		let next = oldDom;
		while (next && next.nodeType == 8) next = next.nextSibling;
		if (dom != next) {
			if (!isMounting && parentDom.moveBefore && dom.parentNode) parentDom.moveBefore(dom, oldDom);
			else parentDom.insertBefore(dom, oldDom || null);
		}
		oldDom = dom;
	}
	while ((oldDom = oldDom && oldDom.nextSibling) && oldDom.nodeType == 8 && !oldDom.data.startsWith("$s"));
	return oldDom;
}
function findMatchingIndex(childVNode, oldChildren, skewedIndex, remainingOldChildren) {
	const key = childVNode.key;
	const type = childVNode.type;
	let oldVNode = oldChildren[skewedIndex];
	const matched = oldVNode && !(oldVNode._flags & 2);
	let shouldSearch = remainingOldChildren > (matched ? 1 : 0);
	if (oldVNode === null && key == null || matched && key == oldVNode.key && type == oldVNode.type) return skewedIndex;
	else if (shouldSearch) {
		let x;
		for (x = skewedIndex - 1; x >= 0; x--) {
			oldVNode = oldChildren[x];
			if (oldVNode && !(oldVNode._flags & 2) && key == oldVNode.key && type == oldVNode.type) return x;
		}
		for (x = skewedIndex + 1; x < oldChildren.length; x++) {
			oldVNode = oldChildren[x];
			if (oldVNode && !(oldVNode._flags & 2) && key == oldVNode.key && type == oldVNode.type) return x;
		}
	}
	return -1;
}
// node_modules/preact/src/diff/props.js
var EVENT_DISPATCHED = Symbol();
function setStyle(style, key, value) {
	if (value == null) value = "";
	if (key[0] == "-") style.setProperty(key, value);
	else style[key] = value;
}
var CAPTURE_REGEX = /(PointerCapture)$|Capture$/i;
var eventClock = 0;
function setProperty(dom, name, value, oldValue, namespace) {
	let useCapture;
	if (name == "style") {
		if (typeof value == "string") dom.style.cssText = value;
		else {
			if (typeof oldValue == "string") dom.style.cssText = oldValue = "";
			if (oldValue) {
				for (name in oldValue) if (!(value && name in value)) setStyle(dom.style, name);
			}
			if (value) {
				for (name in value) if (!oldValue || value[name] != oldValue[name]) setStyle(dom.style, name, value[name]);
			}
		}
	} else if (name[0] == "o" && name[1] == "n") {
		if (typeof value != "function") value = null;
		if (typeof oldValue != "function") oldValue = null;
		(dom._listeners || (dom._listeners = {}))[name] = value;
		if (!value || !oldValue) {
			const proxy = eventProxies[name] || (eventProxies[name] = createEventProxy(name));
			(dom._attached || (dom._attached = {}))[name] = eventClock;
			useCapture = name != (name = name.replace(CAPTURE_REGEX, "$1"));
			name = name.slice(2);
			if (name[0] < "a") name = name.toLowerCase();
			if (value) dom.addEventListener(name, proxy, useCapture);
			else dom.removeEventListener(name, proxy, useCapture);
		}
	} else {
		if (namespace == "http://www.w3.org/2000/svg") name = name.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
		else if (name != "width" && name != "height" && name != "href" && name != "list" && name != "form" && name != "tabIndex" && name != "download" && name != "rowSpan" && name != "colSpan" && name != "role" && name != "popover" && name in dom) try {
			dom[name] = value == null ? "" : value;
			return;
		} catch (e) {}
		if (typeof value == "function") return;
		if (value != null && (value !== false || name[4] == "-")) dom.setAttribute(name, name == "popover" && value == true ? "" : value);
		else dom.removeAttribute(name);
	}
}
function createEventProxy(name) {
	return function(e) {
		let eventHandler = this._listeners;
		if (eventHandler) {
			eventHandler = eventHandler[name];
			if (e[EVENT_DISPATCHED] == null) e[EVENT_DISPATCHED] = eventClock++;
			else if (e[EVENT_DISPATCHED] < this._attached[name]) return;
			return eventHandler(options$1.event ? options$1.event(e) : e);
		}
	};
}
var eventProxies = {};
// node_modules/preact/src/diff/index.js
function diff(parentDom, newVNode, oldVNode, globalContext, namespace, excessDomChildren, commitQueue, oldDom, isHydrating, refQueue) {
	let tmp, resumed, newType = newVNode.type;
	if (newVNode.constructor !== VNODE_MARKER) return null;
	if (oldVNode._flags & 128 && (isHydrating = oldVNode._flags & 32, tmp = oldVNode._component._excess)) {
		newVNode._flags |= isHydrating;
		resumed = excessDomChildren = [];
		if (tmp.nodeType == 8) oldDom = rangeEnd(tmp, excessDomChildren);
		else excessDomChildren.push(tmp);
		oldDom = excessDomChildren[0] || oldDom;
	}
	if (tmp = options$1._diff) tmp(newVNode);
	outer: if (typeof newType == "function") {
		let oldCommitQueueLength = commitQueue.length;
		try {
			let c, oldProps, oldState, snapshot, newProps = newVNode.props;
			const isClassComponent = (tmp = newType.prototype) && tmp.render;
			tmp = newType.contextType;
			const provider = tmp && globalContext[tmp._id];
			const componentContext = tmp ? provider ? provider.props.value : tmp._defaultValue : globalContext;
			if (c = oldVNode._component) {
				newVNode._component = c;
				if (c._bits & 2) c._bits |= 1;
			} else {
				if (isClassComponent) newVNode._component = c = new newType(newProps, componentContext);
				else {
					newVNode._component = c = new BaseComponent(newProps, componentContext);
					c.constructor = newType;
					c.render = doRender;
				}
				if (provider) provider.sub(c);
				if (!c.state) c.state = {};
				c._globalContext = globalContext;
				c._bits |= 8;
				c._renderCallbacks = [];
				c._stateCallbacks = [];
			}
			if (isClassComponent) {
				if (!c._nextState) c._nextState = c.state;
				if (newType.getDerivedStateFromProps) {
					if (c._nextState == c.state) c._nextState = assign({}, c._nextState);
					assign(c._nextState, newType.getDerivedStateFromProps(newProps, c._nextState));
				}
			}
			oldProps = c.props;
			oldState = c.state;
			c._vnode = newVNode;
			if (!oldVNode._component) {
				if (isClassComponent && !newType.getDerivedStateFromProps && c.componentWillMount) c.componentWillMount();
				if (isClassComponent && c.componentDidMount) c._renderCallbacks.push(c.componentDidMount);
			} else {
				if (newProps !== oldProps && isClassComponent && !newType.getDerivedStateFromProps && c.componentWillReceiveProps) c.componentWillReceiveProps(newProps, componentContext);
				if (newVNode._original == oldVNode._original && !(c._bits & 8) || !(c._bits & 4) && c.shouldComponentUpdate && c.shouldComponentUpdate(newProps, c._nextState, componentContext) === false) {
					if (newVNode._original != oldVNode._original) {
						c.props = newProps;
						c.state = c._nextState;
						c._bits &= -9;
					}
					newVNode._dom = oldVNode._dom;
					newVNode._children = oldVNode._children;
					newVNode._children.some((vnode) => {
						if (vnode) vnode._parent = newVNode;
					});
					EMPTY_ARR.push.apply(c._renderCallbacks, c._stateCallbacks);
					c._stateCallbacks = [];
					if (c._renderCallbacks.length) commitQueue.push(c);
					oldDom = getDomSibling(oldVNode);
					break outer;
				}
				if (c.componentWillUpdate) c.componentWillUpdate(newProps, c._nextState, componentContext);
				if (isClassComponent && c.componentDidUpdate) c._renderCallbacks.push(() => {
					c.componentDidUpdate(oldProps, oldState, snapshot);
				});
			}
			c.context = componentContext;
			c.props = newProps;
			c._parentDom = parentDom;
			c._bits &= -5;
			let renderHook = options$1._render, count = isClassComponent ? 25 : 0;
			do {
				c._bits &= -9;
				if (renderHook) renderHook(newVNode);
				tmp = c.render(c.props, c.state = c._nextState, c.context);
			} while (c._bits & 8 && ++count < 25);
			if (isClassComponent) {
				EMPTY_ARR.push.apply(c._renderCallbacks, c._stateCallbacks);
				c._stateCallbacks = [];
			}
			c.state = c._nextState;
			if (c.getChildContext) globalContext = assign({}, globalContext, c.getChildContext());
			if (isClassComponent && oldVNode._component && c.getSnapshotBeforeUpdate) snapshot = c.getSnapshotBeforeUpdate(oldProps, oldState);
			const renderResult = tmp && tmp.type === Fragment && tmp.key == null ? tmp.props.children : tmp;
			if (newProps._parentDom) {
				tmp = oldDom;
				parentDom = newProps._parentDom;
				namespace = parentDom.namespaceURI;
				isHydrating = excessDomChildren = null;
				if (oldVNode.props && oldVNode.props._parentDom != parentDom) {
					oldVNode._children.some((child) => {
						if (child) unmount(child, child);
					});
					oldVNode._children = null;
				}
				oldDom = oldVNode._children ? getDomSibling(oldVNode, 0) : null;
			}
			oldDom = diffChildren(parentDom, isArray$1(renderResult) ? renderResult : [renderResult], newVNode, oldVNode, globalContext, namespace, excessDomChildren, commitQueue, oldDom, isHydrating, refQueue);
			if (newProps._parentDom) {
				newVNode._dom = null;
				oldDom = tmp;
			}
			newVNode._flags &= RESET_MODE;
			if (resumed) resumed.some(removeNode);
			if (c._renderCallbacks.length) commitQueue.push(c);
			if (c._bits & 1) c._bits &= -4;
		} catch (e) {
			commitQueue.length = oldCommitQueueLength;
			newVNode._original = null;
			if (isHydrating || excessDomChildren) {
				if (e && e.then) {
					let startMarker, end;
					newVNode._flags |= 128 | isHydrating;
					if (excessDomChildren) {
						let i = excessDomChildren.indexOf(oldDom || void 0), child;
						if (!~i) i = excessDomChildren.length;
						while ((child = excessDomChildren[i - 1]) && child.nodeType == 8) i--;
						for (; i < excessDomChildren.length; i++) if (child = excessDomChildren[i]) {
							excessDomChildren[i] = null;
							if (startMarker) {
								if (child == end) break;
							} else if (child.nodeType != 8) break;
							else if (child.data.startsWith("$s")) end = rangeEnd(startMarker = child);
						}
					}
					if (!startMarker) {
						while (oldDom && oldDom.nodeType == 8 && oldDom.nextSibling) oldDom = oldDom.nextSibling;
						startMarker = oldDom;
					}
					startMarker = newVNode._component._excess || (newVNode._component._excess = startMarker);
					if (tmp = rangeEnd(startMarker)) {
						newVNode._dom = startMarker;
						oldDom = tmp;
					} else newVNode._dom = oldDom;
					oldDom = oldDom && oldDom.nextSibling;
				} else if (excessDomChildren) excessDomChildren.some(removeNode);
			} else newVNode._dom = oldVNode._dom;
			if (!newVNode._children) newVNode._children = oldVNode._children || [];
			if (!(e && e.then)) markAsForce(newVNode);
			options$1._catchError(e, newVNode, oldVNode);
		}
	} else oldDom = newVNode._dom = diffElementNodes(oldVNode._dom, newVNode, oldVNode, globalContext, namespace, excessDomChildren, commitQueue, isHydrating, refQueue, parentDom);
	if (tmp = options$1.diffed) tmp(newVNode);
	return oldDom;
}
function rangeEnd(start, nodes) {
	if (start && start.nodeType == 8 && start.data.startsWith("$s")) for (let depth = 1; start = start.nextSibling;) {
		if (start.nodeType == 8) {
			if (start.data.startsWith("$s")) depth++;
			else if (start.data.startsWith("/$s") && !--depth) return start;
		}
		if (nodes) nodes.push(start);
	}
}
function markAsForce(vnode) {
	if (vnode) {
		if (vnode._component) vnode._component._bits |= 4;
		if (vnode._children) vnode._children.some(markAsForce);
	}
}
function commitRoot(commitQueue, root, refQueue) {
	for (let i = 0; i < refQueue.length;) applyRef(refQueue[i++], refQueue[i++], refQueue[i++]);
	if (options$1._commit) options$1._commit(root, commitQueue);
	commitQueue.some((c) => {
		try {
			commitQueue = c._renderCallbacks;
			c._renderCallbacks = [];
			commitQueue.some((cb) => {
				cb.call(c);
			});
		} catch (e) {
			options$1._catchError(e, c._vnode);
		}
	});
}
function diffElementNodes(dom, newVNode, oldVNode, globalContext, namespace, excessDomChildren, commitQueue, isHydrating, refQueue, parentDom) {
	let oldProps = oldVNode.props || EMPTY_OBJ;
	const newProps = newVNode.props;
	const nodeType = newVNode.type;
	let i;
	let newHtml;
	let oldHtml;
	let newChildren;
	let value;
	let inputValue;
	let checked;
	if (nodeType == "svg") namespace = SVG_NAMESPACE;
	else if (nodeType == "math") namespace = MATH_NAMESPACE;
	else if (!namespace) namespace = XHTML_NAMESPACE;
	if (excessDomChildren) for (i = 0; i < excessDomChildren.length; i++) {
		value = excessDomChildren[i];
		if (value && (nodeType ? value.localName == nodeType : value.nodeType == 3)) {
			dom = value;
			excessDomChildren[i] = null;
			break;
		}
	}
	if (!dom) {
		const doc = parentDom.ownerDocument || document;
		if (!nodeType) return doc.createTextNode(newProps);
		dom = doc.createElementNS(namespace, nodeType, newProps.is ? newProps : parentDom);
		if (isHydrating) {
			if (options$1._hydrationMismatch) options$1._hydrationMismatch(newVNode, excessDomChildren);
			isHydrating = false;
		}
		excessDomChildren = null;
	}
	if (!nodeType) {
		if (oldProps !== newProps && (!isHydrating || dom.data != newProps)) dom.data = newProps;
	} else {
		parentDom = nodeType == "template" && dom.content || dom;
		excessDomChildren = nodeType == "textarea" && newProps.defaultValue != null ? null : excessDomChildren && slice.call(parentDom.childNodes);
		if (!isHydrating && excessDomChildren) {
			oldProps = {};
			for (i = 0; i < dom.attributes.length; i++) {
				value = dom.attributes[i];
				oldProps[value.name] = value.value;
			}
		}
		for (i in oldProps) {
			value = oldProps[i];
			if (i == "dangerouslySetInnerHTML") oldHtml = value;
			else if (i != "children" && !(i in newProps) && !(i == "value" && "defaultValue" in newProps) && !(i == "checked" && "defaultChecked" in newProps)) setProperty(dom, i, null, value, namespace);
		}
		for (i in newProps) {
			value = newProps[i];
			if (i == "children") newChildren = value;
			else if (i == "dangerouslySetInnerHTML") newHtml = value;
			else if (i == "value") inputValue = value;
			else if (i == "checked") checked = value;
			else if ((!isHydrating || typeof value == "function") && oldProps[i] !== value) setProperty(dom, i, value, oldProps[i], namespace);
		}
		if (newHtml) {
			if (!isHydrating && (!oldHtml || newHtml.__html != oldHtml.__html)) throw new TypeError("no markup from text");
			newVNode._children = [];
		} else {
			if (oldHtml) dom.textContent = "";
			if (nodeType == "foreignObject" || namespace == "http://www.w3.org/1998/Math/MathML" && MATHML_TOKEN_ELEMENTS.test(nodeType)) namespace = XHTML_NAMESPACE;
			diffChildren(parentDom, isArray$1(newChildren) ? newChildren : [newChildren], newVNode, oldVNode, globalContext, namespace, excessDomChildren, commitQueue, excessDomChildren ? excessDomChildren[0] : oldVNode._children && getDomSibling(oldVNode, 0), isHydrating, refQueue);
			if (excessDomChildren) excessDomChildren.some(removeNode);
		}
		if (!isHydrating || nodeType == "textarea") {
			i = "value";
			if (nodeType == "progress" && inputValue == null) dom.removeAttribute(i);
			else if (inputValue != void 0 && (inputValue !== dom[i] || nodeType == "progress" && !inputValue)) setProperty(dom, i, inputValue, oldProps[i], namespace);
			i = "checked";
			if (checked != void 0 && checked != dom[i]) setProperty(dom, i, checked, oldProps[i], namespace);
		}
	}
	return dom;
}
function applyRef(ref, value, vnode, owner) {
	try {
		if (typeof ref == "function") {
			if (value) value._refCleanup = ref(value) || 1;
			else if (owner && (owner = owner._component || owner._dom) && (value = owner._refCleanup)) {
				owner._refCleanup = null;
				if (typeof value == "function") value();
				else ref(null);
			}
		} else ref.current = value;
	} catch (e) {
		options$1._catchError(e, vnode);
	}
}
function unmount(vnode, parentVNode, skipRemove) {
	let r, end, nodes;
	if (options$1.unmount) options$1.unmount(vnode);
	if ((r = vnode.ref) && (!r.current || r.current == vnode._dom)) applyRef(r, null, parentVNode, vnode);
	if (r = vnode._component) {
		if (r.componentWillUnmount) try {
			r.componentWillUnmount();
		} catch (e) {
			options$1._catchError(e, parentVNode);
		}
		r._parentDom = r._globalContext = null;
	}
	if (r = vnode._children) {
		for (let i = 0; i < r.length; i++) if (r[i]) unmount(r[i], parentVNode, typeof vnode.type == "function" ? skipRemove && !vnode.props._parentDom : true);
	}
	if (!skipRemove && (r = vnode._component) && (r = r._excess) && (end = rangeEnd(r, nodes = []))) {
		if (r == vnode._dom) nodes.some(removeNode);
		removeNode(end);
		removeNode(r);
	}
	if (!skipRemove) removeNode(vnode._dom);
	vnode._dom = vnode._component = vnode._parent = null;
}
function doRender(props, state, context) {
	return this.constructor(props, context);
}
// node_modules/preact/src/render.js
function render(vnode, parentDom) {
	if (options$1._root) options$1._root(vnode, parentDom);
	if (parentDom.nodeType == 9) parentDom = parentDom.documentElement;
	let isHydrating = vnode && vnode._flags & 32;
	let oldVNode = isHydrating ? null : parentDom._children;
	parentDom._children = createVNode$1(Fragment, { children: [vnode] });
	let commitQueue = [], refQueue = [];
	diff(parentDom, parentDom._children, oldVNode || EMPTY_OBJ, EMPTY_OBJ, parentDom.namespaceURI, oldVNode ? null : parentDom.firstChild ? slice.call(parentDom.childNodes) : null, commitQueue, oldVNode ? oldVNode._dom : parentDom.firstChild, isHydrating, refQueue);
	commitRoot(commitQueue, parentDom._children, refQueue);
	parentDom._children.props.children = null;
}
// src/api/api.ts
var SECRET = "countersign.csrf";
var PATIENCE_MS = 2e4;
var Refused = class extends Error {
	status;
	problem;
	code;
	requestId;
	constructor(status, problem, requestId) {
		super(problem.detail ?? problem.title ?? `The server answered ${status}`);
		this.status = status;
		this.problem = problem;
		this.code = problem.code ?? "";
		this.requestId = requestId ?? "";
	}
	get sentence() {
		return this.requestId ? `${this.message} (request ${this.requestId})` : this.message;
	}
	get isSignedOut() {
		return this.status === 401 || this.status === 403 && this.code === "forbidden" && !this.problem.requiredScope;
	}
};
var Unreachable = class extends Error {};
var isFinal = (error) => error instanceof Refused && error.status < 500 && error.status !== 429;
var secret = () => localStorage.getItem(SECRET) ?? "";
var forgetSecret = () => localStorage.removeItem(SECRET);
function onSecretChange(then) {
	addEventListener("storage", (event) => {
		if (event.key === SECRET || event.key === null) then(secret());
	});
}
var skewMs = 0;
var serverNow = () => Date.now() + skewMs;
function asked$1(method, path) {
	const answer = method === "GET" ? globalThis.early?.get(path) : void 0;
	if (answer) globalThis.early?.delete(path);
	return answer;
}
async function send(method, path, { body, headers = {}, signal } = {}) {
	const all = new Headers(headers);
	if (secret()) all.set("X-CSRF-Token", secret());
	if (body !== void 0) all.set("Content-Type", "application/json");
	if (!all.has("Accept")) all.set("Accept", "application/json");
	let response;
	try {
		response = await (asked$1(method, path) ?? fetch(path, {
			method,
			headers: all,
			body: body === void 0 ? void 0 : JSON.stringify(body),
			signal: signal ?? AbortSignal.timeout(PATIENCE_MS),
			cache: "no-store",
			credentials: "same-origin",
			redirect: "error"
		}));
	} catch (cause) {
		throw new Unreachable("no answer", { cause });
	}
	noteClock(response);
	if (response.ok) return response;
	const problem = await response.json().catch(() => ({}));
	throw new Refused(response.status, problem, response.headers.get("x-request-id"));
}
async function json(method, path, options) {
	const response = await send(method, path, options);
	try {
		return await response.json();
	} catch (cause) {
		throw new Unreachable("the answer broke off", { cause });
	}
}
async function everything(path, most) {
	const items = [];
	let cursor;
	do {
		const query = new URLSearchParams({ limit: items.length ? "500" : "200" });
		if (cursor) query.set("cursor", cursor);
		const page = await json("GET", `${path}${path.includes("?") ? "&" : "?"}${query}`);
		items.push(...page.items);
		cursor = page.nextCursor;
	} while (cursor && items.length < most);
	return {
		items,
		more: Boolean(cursor)
	};
}
function noteClock(response) {
	const date = Date.parse(response.headers.get("date") ?? "");
	if (Number.isNaN(date)) return;
	const difference = date + 500 - Date.now();
	skewMs = Math.abs(difference) > 2e3 ? difference : 0;
}
// node_modules/preact/hooks/src/index.js
var ObjectIs = Object.is;
var currentIndex;
var currentComponent;
var previousComponent;
var currentHook = 0;
var afterPaintEffects = [];
var unmountCleanups = [];
var options = options$1;
var oldBeforeDiff = options._diff;
var oldBeforeRender = options._render;
var oldAfterDiff = options.diffed;
var oldCommit = options._commit;
var oldBeforeUnmount = options.unmount;
var oldRoot = options._root;
var RAF_TIMEOUT = 35;
var prevRaf;
options._diff = (vnode) => {
	currentComponent = null;
	if (oldBeforeDiff) oldBeforeDiff(vnode);
};
options._root = (vnode, parentDom) => {
	if (vnode && parentDom._children && parentDom._children._mask) vnode._mask = parentDom._children._mask;
	if (oldRoot) oldRoot(vnode, parentDom);
};
options._render = (vnode) => {
	if (oldBeforeRender) oldBeforeRender(vnode);
	currentComponent = vnode._component;
	currentIndex = 0;
	const hooks = currentComponent.__hooks;
	if (hooks) {
		if (previousComponent == currentComponent) currentComponent._renderCallbacks = [];
		else {
			hooks._pendingEffects.some(invokeCleanup);
			hooks._pendingEffects.some(invokeEffect);
			currentIndex = 0;
		}
		hooks._pendingEffects = [];
		hooks._list.some((hookItem) => {
			if (hookItem._nextValue) hookItem._value = hookItem._nextValue;
			hookItem._pendingArgs = hookItem._nextValue = void 0;
		});
	}
	previousComponent = currentComponent;
};
options.diffed = (vnode) => {
	if (oldAfterDiff) oldAfterDiff(vnode);
	const c = vnode._component;
	if (c && c.__hooks) {
		if (c.__hooks._pendingEffects.length) afterPaint(afterPaintEffects.push(c));
		c.__hooks._list.some((hookItem) => {
			if (hookItem._pendingArgs) hookItem._args = hookItem._pendingArgs;
		});
	}
	previousComponent = currentComponent = null;
};
options._commit = (vnode, commitQueue) => {
	commitQueue.some((component) => {
		try {
			component._renderCallbacks.some(invokeCleanup);
			component._renderCallbacks = component._renderCallbacks.filter((cb) => cb._value ? invokeEffect(cb) : true);
		} catch (e) {
			component._renderCallbacks = [() => {
				throw e;
			}];
		}
	});
	if (oldCommit) oldCommit(vnode, commitQueue);
};
options.unmount = (vnode) => {
	if (oldBeforeUnmount) oldBeforeUnmount(vnode);
	const c = vnode._component;
	if (c && c.__hooks) {
		let hasErrored, errorParent;
		c.__hooks._list.some((s) => {
			try {
				if (s._passive && s._cleanup) {
					if (errorParent === void 0) {
						errorParent = vnode._parent;
						while (errorParent && !(errorParent._component && errorParent._component._parentDom)) errorParent = errorParent._parent;
						errorParent = errorParent && errorParent._component;
					}
					s._passive = errorParent;
					afterPaint(unmountCleanups.push(s));
				} else invokeCleanup(s);
			} catch (e) {
				hasErrored = e;
			}
		});
		c.__hooks = void 0;
		if (hasErrored) options._catchError(hasErrored, c._vnode);
	}
};
function getHookState(index, type) {
	if (options._hook) options._hook(currentComponent, index, currentHook || type);
	currentHook = 0;
	const hooks = currentComponent.__hooks || (currentComponent.__hooks = {
		_list: [],
		_pendingEffects: []
	});
	if (index >= hooks._list.length) hooks._list.push({});
	return hooks._list[index];
}
function useState(initialState) {
	currentHook = 1;
	return useReducer(invokeOrReturn, initialState);
}
function useReducer(reducer, initialState, init) {
	const hookState = getHookState(currentIndex++, 2);
	hookState._reducer = reducer;
	if (!hookState._component) {
		hookState._value = [!init ? invokeOrReturn(void 0, initialState) : init(initialState), (action) => {
			const currentValue = (hookState._nextValue || hookState._value)[0];
			const nextValue = hookState._reducer(currentValue, action);
			if (!ObjectIs(currentValue, nextValue)) {
				hookState._nextValue = [nextValue, hookState._value[1]];
				hookState._component.setState({});
			}
		}];
		hookState._component = currentComponent;
		if (!currentComponent._hasScuFromHooks) {
			currentComponent._hasScuFromHooks = true;
			const prevScu = currentComponent.shouldComponentUpdate;
			currentComponent.shouldComponentUpdate = function(p, s, c) {
				const hooks = this.__hooks;
				if (!hooks) return true;
				let updatedHook = false;
				let shouldUpdate = this.props != p;
				hooks._list.some((hookItem) => {
					if (hookItem._nextValue) {
						updatedHook = true;
						if (!ObjectIs(hookItem._value[0], hookItem._nextValue[0])) shouldUpdate = true;
					}
				});
				if (prevScu) {
					const result = prevScu.call(this, p, s, c);
					return updatedHook ? result || shouldUpdate : result;
				}
				return !updatedHook || shouldUpdate;
			};
		}
	}
	return hookState._value;
}
function useEffect(callback, args) {
	const state = getHookState(currentIndex++, 3);
	if (!options._skipEffects && argsChanged(state._args, args)) {
		state._passive = true;
		state._value = callback;
		state._pendingArgs = args;
		currentComponent.__hooks._pendingEffects.push(state);
	}
}
function useLayoutEffect(callback, args) {
	const state = getHookState(currentIndex++, 4);
	if (!options._skipEffects && argsChanged(state._args, args)) {
		state._passive = false;
		state._value = callback;
		state._pendingArgs = args;
		currentComponent._renderCallbacks.push(state);
	}
}
function useRef(initialValue) {
	currentHook = 5;
	return useMemo(() => ({ current: initialValue }), []);
}
function useMemo(factory, args) {
	const state = getHookState(currentIndex++, 7);
	if (argsChanged(state._args, args)) {
		state._value = factory();
		state._args = args;
	}
	return state._value;
}
function flushAfterPaintEffects() {
	let component;
	do {
		while (component = unmountCleanups.shift()) try {
			invokeCleanup(component);
		} catch (e) {
			component = component._passive;
			options._catchError(e, { _parent: component && component._vnode });
		}
		while (component = afterPaintEffects.shift()) {
			const hooks = component.__hooks;
			if (!component._parentDom || !hooks) continue;
			try {
				hooks._pendingEffects.some(invokeCleanup);
				hooks._pendingEffects.some(invokeEffect);
				hooks._pendingEffects = [];
			} catch (e) {
				hooks._pendingEffects = [];
				options._catchError(e, component._vnode);
			}
		}
	} while (unmountCleanups.length);
}
var HAS_RAF = typeof requestAnimationFrame == "function";
function afterNextFrame(callback) {
	const done = () => {
		clearTimeout(timeout);
		if (HAS_RAF) cancelAnimationFrame(raf);
		setTimeout(callback);
	};
	const timeout = setTimeout(done, RAF_TIMEOUT);
	let raf;
	if (HAS_RAF) raf = requestAnimationFrame(done);
}
function afterPaint(newQueueLength) {
	if (newQueueLength == 1 || prevRaf != options.requestAnimationFrame) {
		prevRaf = options.requestAnimationFrame;
		(prevRaf || afterNextFrame)(flushAfterPaintEffects);
	}
}
function invokeCleanup(hook) {
	const comp = currentComponent;
	let cleanup = hook._cleanup;
	if (typeof cleanup == "function") {
		hook._cleanup = void 0;
		cleanup();
	}
	currentComponent = comp;
}
function invokeEffect(hook) {
	const comp = currentComponent;
	hook._cleanup = hook._value();
	currentComponent = comp;
}
function argsChanged(oldArgs, newArgs) {
	return !oldArgs || oldArgs.length != newArgs.length || newArgs.some((arg, index) => !ObjectIs(arg, oldArgs[index]));
}
function invokeOrReturn(arg, f) {
	return typeof f == "function" ? f(arg) : f;
}
// src/state.ts
var State = class {
	#value;
	#followers = new Set();
	constructor(value) {
		this.#value = value;
	}
	get value() {
		return this.#value;
	}
	set(value) {
		if (Object.is(value, this.#value)) return;
		this.#value = value;
		for (const follower of this.#followers) follower();
	}
	change(change) {
		this.set(change(this.#value));
	}
	follow(follower) {
		this.#followers.add(follower);
		return () => this.#followers.delete(follower);
	}
};
function useValue(state) {
	const [, draw] = useReducer((count) => count + 1, 0);
	const { value } = state;
	useLayoutEffect(() => {
		if (!Object.is(state.value, value)) draw(void 0);
		return state.follow(() => draw(void 0));
	}, [state]);
	return value;
}
// src/hints.ts
var hints = {
	runs: new State(0),
	approvals: new State(0),
	nodes: new State(0),
	policy: new State(0),
	all: new State(0)
};
function hint(kind) {
	hints[kind].change((count) => count + 1);
}
// src/announce.ts
var PAUSE_MS$1 = 2500;
var announced = new State("");
var waiting = [];
var timer;
function announce(sentence) {
	waiting.push(sentence);
	timer ??= setTimeout(say$1, 150);
}
function say$1() {
	const more = waiting.length > 3 ? ` And ${waiting.length - 3} more changes.` : "";
	announced.set(waiting.slice(0, 3).join(" ") + more);
	waiting = [];
	timer = setTimeout(() => {
		timer = void 0;
		if (waiting.length) say$1();
	}, PAUSE_MS$1);
}
// src/pure/approvals.ts
var MOST_ENDED = 5e3;
var Approvals = class {
	entries = new Map();
	#ended = new Set();
	take(approval) {
		const known = this.entries.get(approval.id);
		if (approval.status !== "pending") {
			this.#remember(approval.id);
			if (known && known.phase === "sending") known.overtaken = approval;
			else if (known && known.phase === "pending") this.#settle(known, approval, false);
			return known;
		}
		if (known && known.phase !== "settled") this.#count(known, approval);
		if (known || this.#ended.has(approval.id)) return known;
		const entry = {
			approval,
			phase: "pending"
		};
		this.entries.set(approval.id, entry);
		return entry;
	}
	show(approval) {
		const entry = {
			approval,
			phase: approval.status === "pending" ? "pending" : "settled"
		};
		this.entries.set(approval.id, entry);
		return entry;
	}
	resolved({ approvalId, status, decision, resolvedBy, reason, terminalReason, ts = 0 }) {
		this.#remember(approvalId);
		const known = this.entries.get(approvalId);
		if (!known) return known;
		const approval = {
			...known.approval,
			status,
			decision,
			resolvedBy,
			reason,
			terminalReason
		};
		if (status === "allowed" && approval.startDelayMs) approval.startsAtMs = ts + approval.startDelayMs;
		if (terminalReason === "taken-back") this.takenBack(approvalId, approval);
		if (known.phase === "settled") return known;
		if (known.phase === "sending") known.overtaken = approval;
		else this.#settle(known, approval, false);
		return known;
	}
	sending(id, decision) {
		const entry = this.entries.get(id);
		if (entry?.phase !== "pending") return false;
		Object.assign(entry, {
			phase: "sending",
			decision,
			problem: void 0
		});
		return true;
	}
	answered(id, { applied, approval, rule, noRule }) {
		const entry = this.entries.get(id);
		if (!entry || entry.phase === "settled") return;
		if (rule || noRule) entry.left = {
			rule,
			noRule
		};
		if (entry.overtaken?.terminalReason === "taken-back") this.#settle(entry, entry.overtaken, false);
		else if (approval.status !== "pending") this.#settle(entry, approval, applied);
		else if (entry.overtaken) this.#settle(entry, entry.overtaken, false);
		else {
			this.#count(entry, approval);
			Object.assign(entry, {
				phase: "pending",
				voted: true,
				problem: void 0
			});
		}
	}
	takenBack(id, approval) {
		const entry = this.entries.get(id);
		if (entry?.phase === "settled" && entry.approval.status === "allowed") Object.assign(entry, {
			approval,
			problem: void 0
		});
	}
	revised(id, revisedBy) {
		const entry = this.entries.get(id);
		if (entry) entry.approval = {
			...entry.approval,
			revisedBy
		};
	}
	keptAllowed(id, sentence) {
		const entry = this.entries.get(id);
		if (entry?.phase === "settled") entry.problem = sentence;
	}
	refused(id, sentence, approval) {
		const entry = this.entries.get(id);
		if (!entry || entry.phase === "settled") return;
		const end = approval ?? entry.overtaken;
		if (end && end.status !== "pending") this.#settle(entry, end, false);
		else Object.assign(entry, {
			phase: "pending",
			problem: sentence
		});
	}
	lookedAt(id, sentence, approval) {
		const entry = this.entries.get(id);
		if (!entry || entry.phase === "settled") return;
		if (approval.status === "pending") {
			this.#count(entry, approval);
			Object.assign(entry, {
				phase: "pending",
				problem: sentence
			});
		} else this.#settle(entry, approval, approval.decision === entry.decision ? void 0 : false);
	}
	missing(listed) {
		const ids = new Set(listed.map(({ id }) => id));
		return [...this.entries.values()].filter(({ approval, phase }) => phase === "pending" && !ids.has(approval.id)).map(({ approval }) => approval.id);
	}
	ran(runId, run) {
		for (const entry of this.entries.values()) if (entry.approval.runId === runId) {
			entry.run = {
				...entry.run,
				...run
			};
			return entry;
		}
	}
	forget(id) {
		this.entries.delete(id);
	}
	get waiting() {
		return [...this.entries.values()].filter(({ phase }) => phase !== "settled");
	}
	#count(entry, { votes = [] }) {
		const known = entry.approval.votes ?? [];
		if (votes.length >= known.length && votes.length > 0) entry.approval = {
			...entry.approval,
			votes
		};
	}
	#settle(entry, approval, mine) {
		Object.assign(entry, {
			approval,
			phase: "settled",
			mine,
			problem: void 0,
			overtaken: void 0
		});
	}
	#remember(id) {
		if (this.#ended.size >= MOST_ENDED) this.#ended.clear();
		this.#ended.add(id);
	}
};
var inOrder = (a, b) => a.approval.createdAtMs - b.approval.createdAtMs || (a.approval.id < b.approval.id ? -1 : 1);
// src/pure/text.ts
var UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Cn}\p{Co}\p{Zl}\p{Zp}\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\ufe00-\ufe0f\uffa0\u{16fe4}\u{1d159}\u{e0100}-\u{e01ef}]/u;
var BLANKS = 8;
var spelled = (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`;
function visible(text, keep = "") {
	let shown = "";
	for (const character of String(text)) shown += UNSEEN.test(character) && !keep.includes(character) ? spelled(character) : character;
	return shown;
}
var visibleOutput = (text) => visible(text.replaceAll("\r\n", "\n"), "\n	");
function pieces(command) {
	const found = [];
	let plain = "";
	const flush = () => {
		if (plain) found.push(...withBlanks(plain));
		plain = "";
	};
	let at = 0;
	for (const character of command) {
		const isLikeOurs = character === "⟨" || command.startsWith("\\u{", at);
		at += character.length;
		if (!isLikeOurs && !UNSEEN.test(character)) {
			plain += character;
			continue;
		}
		flush();
		found.push({
			kind: character === "\n" ? "break" : "unseen",
			text: spelled(character)
		});
	}
	flush();
	return found;
}
function withBlanks(text) {
	const parts = [];
	for (const part of text.split(/( {8,})/)) {
		if (!part) continue;
		const isRun = part.length >= BLANKS && part.trim() === "";
		parts.push(isRun ? {
			kind: "blanks",
			text: part
		} : {
			kind: "text",
			text: part
		});
	}
	return parts;
}
function joined(found) {
	return found.map(({ kind, text }) => kind === "break" ? `${text}\n` : text).join("");
}
function marked(found, spans) {
	if (spans.length === 0) return found.map((piece) => ({
		...piece,
		span: -1
	}));
	const edges = [...new Set(spans.flat())].sort((a, b) => a - b);
	const result = [];
	let at = 0;
	for (const piece of found) {
		const parts = piece.kind === "text" ? cut(piece.text, at, edges) : [piece.text];
		for (const text of parts) {
			const span = spans.findIndex(([start = 0, end = 0]) => at >= start && at < end);
			result.push({
				...piece,
				text,
				span
			});
			at += bytes(text);
		}
		if (piece.kind === "break") at += 1;
	}
	return result;
}
function cut(text, from, edges) {
	const parts = [];
	let at = from;
	let part = "";
	for (const character of text) {
		if (part && edges.includes(at)) {
			parts.push(part);
			part = "";
		}
		part += character;
		at += bytes(character);
	}
	if (part) parts.push(part);
	return parts;
}
var encoder = new TextEncoder();
var bytes = (text) => encoder.encode(text).length;
function mixedWords(text) {
	const words = text.match(/[\p{L}\p{M}]+/gu) ?? [];
	const isMixed = (word) => /\p{Script=Latin}/u.test(word) && /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Coptic}]/u.test(word);
	return [...new Set(words.filter(isMixed))];
}
function brief(text, length = 80) {
	const characters = [...visible(text).replace(/ {8,}/g, (run) => ` (${run.length} blanks) `)];
	return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : characters.join("");
}
function timeLeft(ms) {
	const seconds = Math.max(0, Math.ceil(ms / 1e3));
	const two = (number) => String(number).padStart(2, "0");
	const hours = Math.floor(seconds / 3600);
	const minutes = Math.floor(seconds / 60) % 60;
	return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}
function duration(ms) {
	if (ms < 1e3) return `${ms} ms`;
	const seconds = ms / 1e3;
	if (seconds < 60) return `${seconds.toFixed(1)} s`;
	const minutes = Math.floor(seconds / 60);
	if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
	return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
function byteSize(count) {
	if (count < 1024) return count === 1 ? "1 byte" : `${count} bytes`;
	const units = [
		"KiB",
		"MiB",
		"GiB"
	];
	let size = count / 1024;
	while (size >= 1024 && units.length > 1) {
		size /= 1024;
		units.shift();
	}
	return `${size.toFixed(1)} ${units[0]}`;
}
// src/pure/words.ts
var of = (table, name) => name !== void 0 && Object.hasOwn(table, name) ? table[name] : void 0;
var RULES = {
	"ask-always": "Always ask: this agent's commands all need approval",
	"allowlist-miss": "Not on the allowlist",
	"needs-person": "Only a person can allow this"
};
var rule = (code) => of(RULES, code) ?? "A rule asks for approval";
var DECISIONS = {
	"allow-once": "Allowed once",
	"allow-always": "Allowed always",
	deny: "Denied"
};
var EDGES = {
	session: "browser",
	token: "API token",
	cli: "command line",
	ipc: "app",
	bridge: "Bridge"
};
function who(actor) {
	if (!actor) return "an unknown person";
	const edge = of(EDGES, actor.kind);
	return edge ? `${actor.name} (${edge})` : actor.name;
}
function progress({ approvalsRequired, votes = [] }) {
	if (!(approvalsRequired > 1)) return "";
	const names = votes.filter(({ decision }) => decision !== "deny").map(({ by }) => who(by));
	const said = names.length ? `: ${names.join(", ")}` : "";
	return `Allowed by ${names.length} of ${approvalsRequired}${said}`;
}
function entitled({ groups }) {
	if (!groups) return "";
	return groups.length ? `approvers of ${groups.join(", ")}` : "nobody: its parts need approvers of different groups";
}
function overridden(overrides) {
	const said = [
		"host",
		"security",
		"ask",
		"node"
	].filter((name) => overrides[name]).map((name) => `${name} ${overrides[name]}`);
	if (overrides.elevated !== void 0 && overrides.elevated !== "off") said.push(`elevated ${overrides.elevated}`);
	if (!said.length) return "";
	const { setBy } = overrides;
	const sender = setBy?.sender ? ` for ${setBy.sender.provider}:${setBy.sender.id}` : "";
	return said.join(", ") + (setBy ? ` (set by ${setBy.name}${sender})` : "");
}
var FALLBACKS = {
	deny: "denied",
	allowlist: "runs if the allowlist covers it",
	full: "runs without an answer"
};
var fallback = (security) => of(FALLBACKS, security) ?? security;
function outcome(approval, mine) {
	const { status, decision, reason, resolvedBy, terminalReason } = approval;
	const said = reason ? `Reason: ${reason}` : "";
	if (status === "allowed" || status === "denied") {
		if (terminalReason === "rule") return {
			tone: status === "denied" ? "bad" : "good",
			title: status === "denied" ? "Denied by your rule" : "Allowed by your rule",
			detail: `By ${who(resolvedBy)}`
		};
		if (terminalReason === "taken-back") return {
			tone: "bad",
			title: `Allowed, and taken back by ${who(resolvedBy)} before it started`,
			detail: said
		};
		const title = of(DECISIONS, decision) ?? (status === "denied" ? "Denied" : "Allowed");
		const by = mine ? "by you" : `by ${who(resolvedBy)}`;
		return {
			tone: status === "denied" ? "bad" : "good",
			title: `${title} ${by}`,
			detail: said
		};
	}
	if (status === "expired") return {
		tone: "dull",
		title: "Expired",
		detail: `${terminalReason === "no-route" ? "No approver could be reached" : "Nobody answered in time"}, so no person allowed it. The agent can ask again.`
	};
	return {
		tone: "dull",
		title: `Cancelled by ${who(resolvedBy)}`,
		detail: "The request was withdrawn."
	};
}
var STATUS = {
	queued: ["dull", "Queued"],
	"approval-pending": ["wait", "Waiting"],
	running: ["live", "Running"],
	completed: ["good", "Done"],
	failed: ["bad", "Failed"],
	denied: ["bad", "Denied"],
	cancelled: ["dull", "Cancelled"],
	lost: ["warn", "Lost"]
};
function runStatus(status) {
	const [tone, label] = of(STATUS, status) ?? ["dull", status];
	return {
		tone,
		label
	};
}
function runFacts(run) {
	const facts = [];
	if (run?.exitCode !== void 0) facts.push(`exit code ${run.exitCode}`);
	if (run?.exitSignal) facts.push(visible(run.exitSignal));
	if (run?.durationMs !== void 0 && run.status !== "denied") facts.push(duration(run.durationMs));
	if (run?.outputBytes) facts.push(`${byteSize(run.outputBytes)} of output`);
	if (run?.reason) facts.push(visible(run.reason));
	return facts.join(" · ");
}
function width(pattern) {
	if (pattern.pattern.startsWith("=command:")) return "exactly this text, in any directory";
	if (pattern.width === "exact") return "exactly these arguments, in this directory";
	if (pattern.width === "arguments") return "arguments of this form, in this directory";
	return "any arguments, in any directory";
}
// src/pure/facts.ts
var OTHER_RIGHTS = new Set([
	"sudo",
	"doas",
	"su",
	"pkexec",
	"runuser",
	"setpriv",
	"run0"
]);
var FETCHERS = new Set("curl wget fetch http https xh aria2c nc ncat netcat socat ssh ftp lftp lynx w3m".split(" "));
function calls(segments) {
	return segments.flatMap((segment) => [segment, ...calls(segment.segments ?? [])]);
}
var baseName = (path) => path.slice(path.lastIndexOf("/") + 1);
function programs({ segments, boundTo }) {
	const names = calls(segments).map(({ executable }) => baseName(executable));
	const found = names.length ? names : [baseName(boundTo.argv?.[0] ?? boundTo.shell ?? "")];
	return [...new Set(found.filter(Boolean))];
}
function piped(segments, before = []) {
	let sources = before;
	let found;
	for (const { executable, operator, runsPipe, segments: inner = [] } of segments) {
		if (operator && operator !== "|" && operator !== "|&") sources = [];
		const from = runsPipe ? sources.find((name) => FETCHERS.has(name)) ?? "" : piped(inner, sources);
		found = found || from;
		sources = [...sources, baseName(executable)];
	}
	return found;
}
function factsOf(approval, past) {
	const { segments, boundTo, envNames, input } = approval;
	const all = calls(segments);
	const found = [];
	const add = (isSo, code, text) => isSo && found.push({
		code,
		text
	});
	const missing = all.filter((call) => !call.resolvedPath && !call.segments?.length && call.match.kind !== "builtin");
	add(missing.length > 0, "missing", missing.length === 1 ? `program not found: ${missing[0]?.executable ?? ""}` : `${missing.length} programs not found`);
	add(all.some(({ match }) => match.kind === "denylist"), "denied", "matches a deny rule");
	const source = piped(segments);
	add(Boolean(source), "network", `runs what ${source} brings from the network`);
	add(source === "", "pipe", "runs what another command prints");
	const near = all.find(({ nearDenyRule }) => nearDenyRule)?.nearDenyRule;
	add(near !== void 0, "near", `near the deny rule ${near}`);
	const raising = all.flatMap(({ executable, wrappers }) => [executable, ...wrappers.map(({ name }) => name)]).map(baseName).find((name) => OTHER_RIGHTS.has(name));
	add(raising !== void 0, "rights", `runs with other rights (${raising ?? ""})`);
	add(!segments.length && !boundTo.argv, "text", "too complex to analyse");
	add(all.some(({ segments: inner }) => (inner?.length ?? 0) > 0), "payload", "a shell text inside");
	add(all.some(({ inlineEval }) => inlineEval === true), "inline", "code inside the command");
	add(input !== void 0 && input !== "withheld", "input", "input stays open");
	add(approval.outsideWorkspace === true, "outside", "outside the workspace");
	add(envNames.length > 0, "variables", envNames.length === 1 ? "sets a variable" : `sets ${envNames.length + (approval.envOmitted ?? 0)} variables`);
	const overrides = past.overrides && overridden(past.overrides);
	add(Boolean(overrides), "session", "session overrides policy");
	add(past.runsBefore === 0, "first", "has not run for this agent before");
	add(approval.scripts !== void 0 && approval.scripts !== "held", "script", "a script can change before it runs");
	add(approval.binding !== "exact", "pinned", approval.binding === "text" ? "programs are found at run time" : "a program is looked up again at run time");
	add(approval.host === "gateway" && (!approval.confinement || approval.confinement.programs.some(({ starts }) => starts === void 0)), "starts", "may start anything");
	add(approval.display.warnings.some(({ code }) => !["input-open", "secrets-masked"].includes(code)) || mixedWords(approval.command).length > 0, "display", "unusual characters");
	add(approval.approvalsRequired > 1, "people", `needs ${approval.approvalsRequired} people`);
	return found;
}
var NEUTRAL = new Set(["people"]);
function isPlain(approval, past) {
	const isKnown = past.runsBefore !== void 0 && past.overrides !== void 0;
	const isTakenApart = approval.segments.length > 0 || Boolean(approval.boundTo.argv && approval.resolvedPath);
	return isKnown && isTakenApart && factsOf(approval, past).every(({ code }) => NEUTRAL.has(code));
}
var alike = new WeakMap();
function alikeKey(approval) {
	let key = alike.get(approval);
	if (key === void 0) {
		const { agentId, host, envNames, envValues = {}, envOmitted = 0, boundTo } = approval;
		key = JSON.stringify([
			agentId,
			host,
			programs(approval),
			envNames,
			envNames.map((name) => Object.hasOwn(envValues, name) ? envValues[name] : null),
			envOmitted,
			boundTo.envHash
		]);
		alike.set(approval, key);
	}
	return key;
}
var areAlike = (one, other) => alikeKey(one) === alikeKey(other);
function matches(approval, filter) {
	const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
	if (!words.length) return true;
	const all = [
		approval.agentId,
		approval.cwd,
		approval.command,
		approval.sessionKey
	].join("\n").toLowerCase();
	return words.every((word) => {
		if (word.startsWith("agent:")) return approval.agentId.toLowerCase() === word.slice(6);
		if (word.startsWith("host:")) return approval.host.toLowerCase() === word.slice(5);
		return all.includes(word);
	});
}
var keys = new WeakMap();
function equalKey(approval) {
	let key = keys.get(approval);
	if (key === void 0) {
		const { id, slug, runId, sessionKey, requestedBy, createdAtMs, expiresAtMs, votes, proposals, boundTo: { digest, ...bound }, ...shown } = approval;
		key = JSON.stringify([shown, bound]);
		keys.set(approval, key);
	}
	return key;
}
function keyOf({ approval, phase, answer }, areSimilar) {
	if (phase === "settled") return answer === void 0 ? approval.id : `answer ${answer}`;
	return areSimilar ? alikeKey(approval) : equalKey(approval);
}
function rowsOf(entries, { areSimilar, isOpen, nameOf }) {
	const groups = new Map();
	for (const entry of entries) {
		let key = keyOf(entry, areSimilar);
		let group = groups.get(key);
		while (group && group.length >= 100) group = groups.get(key += "+");
		if (group) group.push(entry);
		else groups.set(key, [entry]);
	}
	const rows = [];
	const add = (lead, kind) => rows.push({
		name: lead.approval.id,
		lead,
		entries: [lead],
		kind,
		isOpen: false
	});
	for (const [key, all] of groups) {
		const lead = all[0];
		if (all.length === 1) {
			add(lead, "one");
			continue;
		}
		const name = nameOf(key);
		const row = {
			name,
			lead,
			entries: all,
			kind: areEqual(all) ? "equal" : "similar",
			isOpen: isOpen(name)
		};
		rows.push(row);
		if (row.isOpen) for (const entry of all) add(entry, "member");
	}
	return rows;
}
function areEqual([lead, ...rest]) {
	if (!lead) return true;
	const key = ({ approval, phase }) => phase === "settled" ? approval.command : equalKey(approval);
	return rest.every((entry) => key(entry) === key(lead));
}
var rowOf = (name, rows) => rows.find((row) => row.name === name) ?? rows.find(({ entries }) => entries.some(({ approval }) => approval.id === name));
// src/pure/looker.ts
var AGAIN_MS = 1500;
function createLooker(see, pause, { failed, seen = () => {}, isOver = () => false }) {
	let timer;
	let isLooking = false;
	let isDue = false;
	function wait(ms) {
		if (isLooking) return;
		timer ??= setTimeout(look, ms);
	}
	async function look() {
		timer = void 0;
		if (isOver()) return;
		isDue = false;
		isLooking = true;
		let after;
		try {
			await see();
			seen();
		} catch (error) {
			if (!failed(error)) {
				isDue = true;
				after = AGAIN_MS;
			}
		}
		isLooking = false;
		if (isDue) wait(after ?? ms());
	}
	const ms = () => typeof pause === "function" ? pause() : pause;
	return () => {
		isDue = true;
		wait(ms());
	};
}
// src/reasons.ts
var KEY = "countersign.reasons";
var MOST = 5;
var LONGEST = 200;
function lastReasons() {
	try {
		const kept = JSON.parse(localStorage.getItem(KEY) ?? "[]");
		return Array.isArray(kept) ? kept.filter((reason) => typeof reason === "string").slice(0, MOST) : [];
	} catch {
		return [];
	}
}
function keepReason(reason) {
	if (!reason || reason.length > LONGEST) return;
	const others = lastReasons().filter((known) => known !== reason);
	localStorage.setItem(KEY, JSON.stringify([reason, ...others].slice(0, MOST)));
}
var forgetReasons = () => localStorage.removeItem(KEY);
// src/shell.ts
var only = /^\/a\/([a-z0-9-]{1,64})$/.exec(location.pathname)?.[1];
var link = new State({
	state: "connecting",
	text: "Connecting"
});
var me = new State(void 0);
var policy = new State(void 0);
var head = new State(void 0);
var notices = new State(new Map());
var pairingsWaiting = new State(0);
var gone = new State(void 0);
var blank = new State("Loading the requests …");
var may = (scope) => me.value?.scopes.includes(scope) ?? false;
var unanswered = new Set();
var isUp = false;
function setUp(up) {
	isUp = up;
	if (up) unanswered.clear();
}
function say(state, text) {
	const now = link.value;
	if (now.state !== state || now.text !== text) link.set({
		state,
		text
	});
}
function reached(what) {
	unanswered.delete(what);
	if (isUp && gone.value === void 0 && !unanswered.size) say("live", "Live");
}
function missed(what, error) {
	if (!isFinal(error)) unanswered.add(what);
	failed(error);
}
function looker(see, pause) {
	return createLooker(see, pause, {
		isOver: () => gone.value !== void 0,
		seen: () => reached(see),
		failed: (error) => {
			missed(see, error);
			return isFinal(error);
		}
	});
}
function failed(error) {
	if (gone.value !== void 0) return;
	if (!(error instanceof Refused)) return say("offline", "Offline. Trying again …");
	if (error.isSignedOut) return void check();
	notice("error", error.sentence);
	blank.set("The requests could not be loaded.");
}
function notice(id, text, edit) {
	notices.change((now) => {
		if (now.get(id)?.text === text && now.get(id)?.edit?.hash === edit?.hash) return now;
		if (!text && !now.has(id)) return now;
		const next = new Map(now);
		if (text) next.set(id, edit ? {
			text,
			edit
		} : { text });
		else next.delete(id);
		return next;
	});
}
async function check() {
	try {
		await json("GET", "/auth/session");
	} catch (error) {
		if (!(error instanceof Refused) || !error.isSignedOut) return;
		forgetSecret();
		if (me.value) signedOut("Your sign-in has ended.");
		else leave();
	}
}
function leave() {
	location.replace(only ? `/login?next=/a/${only}` : "/login");
}
async function signOut() {
	try {
		await send("POST", "/auth/logout");
	} catch (error) {
		if (!(error instanceof Refused)) {
			notice("sign-out", "The server does not answer, so you are still signed in there. Try again when it is back.");
			return;
		}
	}
	forgetSecret();
	signedOut("You are signed out.");
}
function signedOut(why) {
	forgetReasons();
	gone.set(why);
	document.title = "Signed out · countersign";
	say("off", "Signed out");
}
async function seePolicy() {
	const now = await json("GET", "/v1/policy/effective");
	policy.set(now);
	const { document: stored, configError, configHeld, serverHeld } = now;
	notice("document", stored.status === "refused" ? `The approvals document cannot be used, so everything is denied (${stored.reason}).` : "");
	held("held", "the approvals document", stored.held);
	held("held-config", "the settings", configHeld);
	held("held-server", "the settings of the server", serverHeld);
	notice("config", configError && !configHeld && !serverHeld ? `The last edit of the settings is not in effect: ${configError}` : "");
}
function held(id, what, edit) {
	if (!edit) return notice(id, "");
	const who = (edit.proposedBy ?? []).map(({ name }) => visible(name)).join(", ");
	notice(id, `${who ? `${who} changed ${what}, which takes a second person.` : `An edit from outside changed ${what}.`} It is not in effect yet, and would newly allow: ${edit.allows.join("; ")}.`, edit);
}
async function seePairings() {
	if (may("admin")) pairingsWaiting.set((await json("GET", "/v1/nodes/pairings?limit=100")).items.length);
}
async function seeHead() {
	head.set(await json("GET", "/v1/audit/head"));
}
// src/inbox.ts
var MOST_LOADED = 5e3;
var GATHER_MS$1 = 80;
var ONE_BY_ONE = 5;
var LOOK_AGAIN_MS = 1500;
var IDLE_MS = 3e3;
var REMOVE_AFTER_MS = 6e4;
var MOST_PAST = 20;
var OVERRIDES_HOLD_MS = 3e3;
var model = new Approvals();
var drawn = new State(0);
var online = new State(true);
var filter = new State(new URLSearchParams(location.search).get("q") ?? "");
var opened$1 = new State(void 0);
var isOpened = new State(false);
var chosen = new State(new Set());
var areSimilar = new State(localStorage.getItem("countersign.similar") === "1");
var ticks = new State(0);
var settledAt = new Map();
var read = new Set();
var lastTouch = 0;
var focusNext = new State(void 0);
function listed() {
	const words = filter.value;
	return [...model.entries.values()].filter(({ approval }) => matches(approval, words)).sort(inOrder);
}
var names = new Map();
var named = 0;
var unfolded = new Set();
function nameOf(key) {
	const name = names.get(key) ?? `all-${named++}`;
	names.set(key, name);
	return name;
}
var rows = () => rowsOf(listed(), {
	areSimilar: areSimilar.value && !only,
	isOpen: (name) => unfolded.has(name),
	nameOf
});
var openRow = (all = rows()) => rowOf(opened$1.value, all);
function unfold(name, isOpen) {
	const group = rows().find(({ entries, name: own }) => entries.length > 1 && (own === name || entries.some(({ approval }) => approval.id === name)));
	if (!group) return;
	if (isOpen ?? !group.isOpen) unfolded.add(group.name);
	else {
		unfolded.delete(group.name);
		if (name !== group.name) open(group.name, "row");
	}
	draw();
}
function setSimilar(is) {
	localStorage.setItem("countersign.similar", is ? "1" : "0");
	areSimilar.set(is);
	draw();
}
var waits = ({ entries }) => entries.some(({ phase }) => phase !== "settled");
function markRead(id) {
	read.add(id);
	draw();
}
var isRead = (id) => read.has(id);
var drawing;
function draw() {
	for (const { approval, phase } of model.entries.values()) if (phase === "settled" && !settledAt.has(approval.id)) settledAt.set(approval.id, performance.now());
	const waiting = new Set(model.waiting.map(({ approval }) => approval.id));
	if ([...chosen.value].some((id) => !waiting.has(id))) chosen.set(new Set([...chosen.value].filter((id) => waiting.has(id))));
	openFirst();
	drawn.change((count) => count + 1);
}
function drawSoon() {
	drawing ??= setTimeout(() => {
		drawing = void 0;
		if (gone.value === void 0) draw();
	}, 16);
}
var lastOpen = [];
function openFirst() {
	if (only) return opened$1.set(only);
	const all = rows();
	const left = all.filter(({ entries }) => entries.some(({ approval }) => lastOpen.includes(approval.id)));
	const row = openRow(all) ?? left.find(waits) ?? left[0];
	if (row) {
		lastOpen = row.entries.map(({ approval }) => approval.id);
		if (!openRow(all)) opened$1.set(row.name);
	} else if (opened$1.value === void 0 || !model.entries.has(opened$1.value)) {
		isOpened.set(false);
		opened$1.set((all.find(waits) ?? all[0])?.name);
	}
}
function open(id, where) {
	opened$1.set(id);
	isOpened.set(id !== void 0);
	if (id !== void 0 && where) focusNext.set({
		id,
		where
	});
	drawn.change((count) => count + 1);
}
function closeCard() {
	isOpened.set(false);
	if (opened$1.value !== void 0) focusNext.set({
		id: opened$1.value,
		where: "row"
	});
	drawn.change((count) => count + 1);
}
function move(step) {
	const all = rows();
	const now = openRow(all);
	const to = all[now ? Math.min(all.length - 1, Math.max(0, all.indexOf(now) + step)) : 0];
	if (to) open(to.name, isOpened.value && isNarrow() ? "card" : "row");
}
var isNarrow = () => matchMedia("(max-width: 59.99rem)").matches;
function goOn(id) {
	if (only || opened$1.value !== id) return;
	const next = nextOpen(id);
	if (next) open(next.name, "card");
}
function nextOpen(id) {
	const all = rows();
	const now = rowOf(id, all);
	const at = now ? all.indexOf(now) : all.length;
	const takes = ({ entries }) => entries.some(isOpen);
	return all.slice(at + 1).find(takes) ?? all.slice(0, at).reverse().find(takes);
}
var isOpen = ({ phase, voted }) => phase === "pending" && !voted;
function choose(name) {
	const next = new Set(chosen.value);
	const ids = (rowOf(name, rows())?.entries ?? []).filter(({ phase }) => phase === "pending").map(({ approval }) => approval.id);
	const isIn = ids.every((id) => next.has(id));
	for (const id of ids) if (isIn) next.delete(id);
	else if (next.size < 100) next.add(id);
	chosen.set(next);
}
function chooseAlike(name) {
	const like = rowOf(name, rows())?.lead;
	if (!like) return;
	const found = listed().filter((entry) => isOpen(entry) && areAlike(entry.approval, like.approval));
	chosen.set(new Set(found.slice(0, 100).map(({ approval }) => approval.id)));
}
var chooseNone = () => chosen.set(new Set());
function setFilter(words) {
	filter.set(words);
	const query = words ? `?q=${encodeURIComponent(words)}` : location.pathname;
	history.replaceState(null, "", query);
	if (!openRow()) opened$1.set(void 0);
	draw();
}
function touched() {
	lastTouch = performance.now();
}
function tick() {
	ticks.change((count) => count + 1);
	const now = performance.now();
	if (only || now - lastTouch < IDLE_MS) return;
	const old = [...settledAt].filter(([id, since]) => now - since > REMOVE_AFTER_MS && !lastOpen.includes(id));
	for (const [id] of old) remove(id);
	if (old.length) draw();
}
function remove(id) {
	settledAt.delete(id);
	read.delete(id);
	model.forget(id);
}
function clearEnded() {
	for (const id of [...settledAt.keys()]) remove(id);
	draw();
}
var hasEnded = () => settledAt.size > 0;
function empty() {
	for (const id of [...model.entries.keys()]) remove(id);
	chooseNone();
	draw();
}
var asked = new Set();
var changed = new Set();
var unsure = new Set();
var mustLoad = false;
var looking;
function streamOpened(resumed) {
	online.set(true);
	mustLoad ||= !resumed;
	lookSoon(0);
}
async function load() {
	if (only) return loadOne(only);
	const { items, more } = await everything("/v1/approvals", MOST_LOADED);
	if (gone.value !== void 0) return;
	for (const approval of items) model.take(approval);
	if (!me.value) return;
	blank.set("Nothing is waiting. New requests appear here by themselves.");
	draw();
	notice("most", more ? `More than ${MOST_LOADED.toLocaleString("en")} requests wait. Only the newest are here. Answer some, then reload the page to see older ones.` : "");
	if (!more) await Promise.all(model.missing(items).slice(0, 50).map(look));
}
async function loadOne(id) {
	try {
		const approval = await json("GET", `/v1/approvals/${id}`);
		if (model.entries.has(id)) model.take(approval);
		else model.show(approval);
		if (!me.value) return;
		if (may("read") && !oneRun.value) runSoon();
		draw();
	} catch (error) {
		if (!(error instanceof Refused) || error.status !== 404) throw error;
		blank.set("There is no such request, or its record is older than what is kept.");
		draw();
	}
}
var oneRun = new State(void 0);
var runSoon = looker(async () => {
	const entry = only === void 0 ? void 0 : model.entries.get(only);
	if (!entry) return;
	const run = await json("GET", `/v1/runs/${entry.approval.runId}`);
	if (gone.value !== void 0) return;
	entry.run = run;
	oneRun.set(run);
	draw();
}, 0);
async function look(id) {
	try {
		model.take(await json("GET", `/v1/approvals/${id}`));
		draw();
	} catch (error) {
		if (!(error instanceof Refused) || error.status !== 404) throw error;
		model.forget(id);
	}
}
function happened(event) {
	switch (event.type) {
		case "exec.approval.requested":
			if (only && event.approvalId !== only) return;
			asked.add(event.approvalId);
			return lookSoon(GATHER_MS$1);
		case "exec.approval.voted":
			if (!model.entries.has(event.approvalId)) return;
			changed.add(event.approvalId);
			return lookSoon(0);
		case "exec.approval.resolved": {
			asked.delete(event.approvalId);
			const entry = model.resolved(event);
			if (!entry) return;
			if (entry.phase === "settled") announce(`A request has ended: ${outcome(entry.approval, entry.mine).title}.`);
			return drawSoon();
		}
		case "exec.started": return ran(event, { status: "running" });
		case "exec.finished":
		case "exec.denied": return ran(event, {
			...news(event),
			status: event.status ?? "denied"
		});
	}
}
function news({ exitCode, exitSignal, durationMs, outputBytes, reason }) {
	return Object.fromEntries(Object.entries({
		exitCode,
		exitSignal,
		durationMs,
		outputBytes,
		reason
	}).filter(([, value]) => value !== void 0));
}
function ran(event, run) {
	const entry = model.ran(event.runId, run);
	if (entry) drawSoon();
	if (entry && only) runSoon();
}
function lookSoon(pause) {
	looking ??= setTimeout(async () => {
		let again = GATHER_MS$1;
		try {
			await lookAtDue();
			reached(lookAtDue);
		} catch (error) {
			missed(lookAtDue, error);
			again = isFinal(error) ? void 0 : LOOK_AGAIN_MS;
		}
		looking = void 0;
		if (again && gone.value === void 0 && (mustLoad || unsure.size || changed.size || asked.size)) lookSoon(again);
	}, pause);
}
async function lookAtDue() {
	if (mustLoad) await loadDue();
	await each(unsure, settle);
	await each(changed, look);
	const ids = [...asked];
	for (const id of ids.filter((known) => model.entries.has(known))) asked.delete(id);
	try {
		if (asked.size > ONE_BY_ONE) {
			await load();
			for (const id of ids) asked.delete(id);
		} else await each(asked, look);
	} finally {
		tell(ids.filter((id) => !asked.has(id)).flatMap((id) => model.entries.get(id) ?? []).filter(({ phase }) => phase === "pending"));
	}
}
function tell(entries) {
	const [first] = entries;
	if (!first) return;
	const { agentId, display } = first.approval;
	announce(`${entries.length === 1 ? `New request from ${brief(agentId, 40)}: ${brief(display.text)}.` : `${entries.length} new requests.`} ${model.waiting.length} waiting.`);
}
async function loadDue() {
	mustLoad = false;
	try {
		await load();
	} catch (error) {
		mustLoad = !isFinal(error);
		throw error;
	}
}
async function each(due, see) {
	const failure = (await Promise.allSettled([...due].map(async (id) => {
		due.delete(id);
		try {
			await see(id);
		} catch (error) {
			if (!isFinal(error)) due.add(id);
			throw error;
		}
	}))).find((end) => end.status === "rejected");
	if (failure) throw failure.reason;
}
async function decide(id, decision, options) {
	if (!model.sending(id, decision)) return;
	draw();
	try {
		const answer = await json("POST", `/v1/approvals/${id}/decision`, { body: {
			decision,
			...options
		} });
		model.answered(id, answer);
		announceAnswer(answer);
		goOn(id);
	} catch (error) {
		if (error instanceof Refused) {
			if (error.isSignedOut) await check();
			model.refused(id, error.sentence, error.problem.approval);
		} else sentBlindly(id);
	}
	if (gone.value === void 0) draw();
}
function announceAnswer({ applied, approval }) {
	const more = approval.status === "pending" ? " It waits for another person." : "";
	announce((applied ? "Your answer counts." : "The same answer was already given.") + more);
}
function sentBlindly(id) {
	unsure.add(id);
	retryLine();
	lookSoon(0);
}
var retryLine = () => {};
function setRetry(retry) {
	retryLine = retry;
}
async function settle(id) {
	model.lookedAt(id, "Your answer did not arrive. Please answer again.", await json("GET", `/v1/approvals/${id}`));
	if (gone.value === void 0) draw();
}
var overridesSeen = new Map();
function overridesOf({ sessionKey, agentId }) {
	const query = /^agent:([^:]+):/.test(sessionKey) ? "" : `?agentId=${encodeURIComponent(agentId)}`;
	const path = `/v1/sessions/${encodeURIComponent(sessionKey)}/overrides${query}`;
	const known = overridesSeen.get(path) ?? json("GET", path);
	if (!overridesSeen.has(path)) setTimeout(() => overridesSeen.delete(path), OVERRIDES_HOLD_MS);
	overridesSeen.set(path, known);
	return known;
}
async function pastRuns({ agentId, command, runId, createdAtMs }) {
	const part = [...command].slice(0, 100).join("");
	const { items } = await json("GET", `/v1/runs?${new URLSearchParams({
		agentId,
		q: part,
		until: String(createdAtMs + 1),
		limit: String(MOST_PAST)
	})}`);
	return items.filter((run) => run.runId !== runId && run.status !== "approval-pending" && textOf(run) === command);
}
var textOf = (run) => run.command ?? run.displayText;
// src/card-keys.ts
var current;
function setCard(card) {
	current = card;
	return () => {
		if (current === card) current = void 0;
	};
}
var openCard = () => current;
// \0vite/preload-helper.js
var __vitePreload = (load) => load();
// src/later.ts
var record = new State(void 0);
var loading;
function loadRecord() {
	loading ??= __vitePreload(() => import("./record.js").then((n) => n.record_exports).then((views) => record.set(views)), []).catch((error) => {
		loading = void 0;
		failed(error);
	});
}
// src/pure/letter.ts
function meaning({ opened, focused, isInSight }, isKnown) {
	const wanted = focused ?? opened;
	if (wanted === void 0 || !isKnown(wanted)) return { kind: "nothing" };
	if (focused === opened && isInSight) return { kind: "act" };
	return {
		kind: "open",
		id: wanted
	};
}
// src/pure/route.ts
var NAMES = [
	"inbox",
	"overview",
	"runs",
	"history",
	"terminals",
	"sessions",
	"nodes",
	"policy",
	"people",
	"audit",
	"health"
];
function placeOf$1(hash) {
	const [, name = "", query = ""] = /^#\/([a-z]*)(?:\?(.*))?$/s.exec(hash) ?? [];
	return {
		view: NAMES.find((known) => known === name) ?? "inbox",
		query: new URLSearchParams(query)
	};
}
function addressOf(view, filter = {}) {
	const text = new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== "")).toString();
	return `#/${view}${text ? `?${text}` : ""}`;
}
// src/place.ts
var place = new State(placeOf$1(only ? "" : location.hash));
if (!only) addEventListener("hashchange", () => place.set(placeOf$1(location.hash)));
function keepFilter(view, filter) {
	history.replaceState(null, "", addressOf(view, filter));
	place.set(placeOf$1(location.hash));
}
// src/keys.ts
var WRITING_MS = 2e3;
var OFF = "countersign.keys-off";
var isOn = new State(localStorage.getItem(OFF) !== "1");
var mark = () => document.documentElement.toggleAttribute("data-keys-off", !isOn.value);
mark();
var isHelp = new State(false);
function setOn(on) {
	if (on) localStorage.removeItem(OFF);
	else localStorage.setItem(OFF, "1");
	isOn.set(on);
	mark();
}
var DEEDS = {
	j: () => move(1),
	ArrowDown: () => move(1),
	k: () => move(-1),
	ArrowUp: () => move(-1),
	a: onCard(() => openCard()?.press("once")),
	A: onCard(() => openCard()?.press("always")),
	d: onCard(() => openCard()?.press("deny")),
	r: onCard(() => openCard()?.press("reason")),
	e: onCard(() => openCard()?.press("edit")),
	x: onFocused(choose),
	X: onFocused(chooseAlike),
	"*": () => record.value?.chooseAll(),
	o: onFocused((name) => unfold(name)),
	ArrowRight: onFocused((name) => unfold(name, true)),
	ArrowLeft: onFocused((name) => unfold(name, false)),
	g: () => setSimilar(!areSimilar.value),
	"/": () => document.querySelector("#filter")?.focus(),
	"?": () => isHelp.set(true)
};
function focused() {
	const place = document.activeElement?.closest("[data-id], [data-row]");
	return place?.dataset.id ?? place?.dataset.row;
}
var called = (name) => rowOf(name, rows())?.name ?? name;
function onCard(deed) {
	return () => {
		const batch = chosen.value.size ? document.querySelector("[data-id=chosen] article") : null;
		if (batch) return batch.contains(document.activeElement) ? deed() : batch.focus();
		const { value: now } = opened$1;
		const card = now === void 0 ? void 0 : document.querySelector(`[data-id="${CSS.escape(now)}"]`);
		const what = meaning({
			opened: called(now),
			focused: called(focused()),
			isInSight: card !== null && card !== void 0 && isInSight(card)
		}, (name) => rowOf(name, rows()) !== void 0);
		if (what.kind === "act") deed();
		if (what.kind !== "open") return;
		card?.scrollIntoView({ block: "nearest" });
		open(what.id, "card");
	};
}
function onFocused(deed) {
	return () => {
		const name = called(focused() ?? opened$1.value);
		if (name === void 0 || !rowOf(name, rows())) return;
		if (focused() === void 0) open(name, "row");
		else deed(name);
	};
}
function isInSight(element) {
	if (!element.checkVisibility()) return false;
	const { top, bottom } = element.getBoundingClientRect();
	return bottom > 0 && top < innerHeight;
}
function listen() {
	let wroteAt = -Infinity;
	const doneWriting = () => {
		wroteAt = -Infinity;
	};
	addEventListener("pointerdown", doneWriting, { passive: true });
	document.addEventListener("keydown", (event) => {
		const target = event.target instanceof Element ? event.target : document.body;
		const isWritten = isWriting(target) || performance.now() - wroteAt < WRITING_MS;
		if (event.key === "Escape" || event.key === "Tab" || event.key === "Enter" && isWriting(target)) doneWriting();
		else if (isWritten) wroteAt = performance.now();
		if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
		if (event.key === "Escape") {
			if (place.value.view === "inbox" && escape(target)) event.preventDefault();
			return;
		}
		if (event.repeat && !event.key.startsWith("Arrow") && !"jk".includes(event.key)) return;
		if (!isOn.value || isWritten) return;
		const deed = Object.hasOwn(DEEDS, event.key) ? DEEDS[event.key] : void 0;
		if (!deed || event.key.startsWith("Arrow") && scrolls(target)) return;
		if (place.value.view !== "inbox" && event.key !== "?") return;
		deed();
		event.preventDefault();
	});
}
function escape(target) {
	if (openCard()?.escape()) return true;
	if (target.id === "filter") {
		const id = opened$1.value;
		if (id !== void 0) open(id, "row");
		return true;
	}
	if (chosen.value.size) {
		chooseNone();
		return true;
	}
	if (!isOpened.value || !target.closest("[data-id]")) return false;
	closeCard();
	return true;
}
var isWriting = (target) => target.matches("input:not([type=checkbox]), textarea, select");
var scrolls = (target) => target.matches("pre");
// src/pure/sse.ts
function reader(onEvent) {
	let rest = "";
	let event = {};
	const take = (line) => {
		if (line === "") {
			if (event.data !== void 0) onEvent({
				id: event.id,
				type: event.type ?? "message",
				data: event.data
			});
			event = {};
		} else if (!line.startsWith(":")) {
			const colon = line.indexOf(":");
			const name = colon < 0 ? line : line.slice(0, colon);
			const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
			if (name === "id") event.id = value;
			else if (name === "event") event.type = value;
			else if (name === "data") event.data = event.data === void 0 ? value : `${event.data}\n${value}`;
		}
	};
	return (text) => {
		const lines = (rest + text).split("\n");
		rest = lines.pop() ?? "";
		for (const line of lines) take(line);
	};
}
// src/stream.ts
var SILENCE_MS = 35e3;
var PAUSES_MS = [
	300,
	700,
	1500,
	3e3,
	6e3,
	12e3
];
function follow(types, answers, on) {
	let lastId;
	let failures = 0;
	let stopped = false;
	let line = new AbortController();
	let wake = () => {};
	async function once() {
		line = new AbortController();
		const headers = { Accept: "text/event-stream" };
		if (lastId !== void 0) headers["Last-Event-ID"] = lastId;
		let silence = setTimeout(() => line.abort(), SILENCE_MS);
		const alive = () => {
			clearTimeout(silence);
			silence = setTimeout(() => line.abort(), SILENCE_MS);
		};
		try {
			const response = await send("GET", `/v1/events?types=${types.join(",")}&approver=${answers}`, {
				headers,
				signal: line.signal
			});
			const resumed = lastId !== void 0;
			failures = 0;
			on.open(resumed);
			if (!response.body) return;
			const text = response.body.pipeThrough(new TextDecoderStream()).getReader();
			const feed = reader((event) => {
				if (event.id !== void 0) lastId = event.id;
				if (event.type === "events.gap") on.open(false);
				else on.event(JSON.parse(event.data));
			});
			for (;;) {
				const { done, value } = await text.read();
				if (done) return;
				alive();
				feed(value);
			}
		} finally {
			clearTimeout(silence);
		}
	}
	async function forever() {
		while (!stopped) {
			try {
				await once();
			} catch (error) {
				if (error instanceof Refused && error.status < 500 && error.status !== 429) {
					on.refused(error);
					return;
				}
			}
			if (stopped) return;
			const pause = PAUSES_MS[Math.min(failures, PAUSES_MS.length - 1)] ?? 12e3;
			failures += 1;
			const wait = pause / 2 + Math.random() * (pause / 2);
			on.down();
			await new Promise((done) => {
				wake = done;
				setTimeout(done, wait);
			});
		}
	}
	forever();
	return {
		retry: () => wake(),
		stop: () => {
			stopped = true;
			line.abort();
			wake();
		}
	};
}
function watch(list) {
	const places = new WeakMap();
	const movedAt = new WeakMap();
	const look = () => {
		const now = performance.now();
		for (const item of list.children) {
			const actions = item.querySelector(".actions");
			const { top } = (actions?.checkVisibility() ? actions : item).getBoundingClientRect();
			const place = {
				onScreen: top,
				onPage: top + scrollY
			};
			const known = places.get(item);
			if (!known || Math.abs(known.onScreen - place.onScreen) > 3 && Math.abs(known.onPage - place.onPage) > 3) unsettle(item, now);
			places.set(item, place);
		}
	};
	const unsettle = (item, now = performance.now()) => {
		movedAt.set(item, now);
		item.setAttribute("data-unsteady", "");
		setTimeout(() => {
			if (performance.now() - (movedAt.get(item) ?? 0) >= 495) item.removeAttribute("data-unsteady");
		}, 500);
	};
	const observers = [list, document.body].map((element) => {
		const observer = new ResizeObserver(look);
		observer.observe(element);
		return observer;
	});
	return {
		look,
		unsettle: (card) => unsettle(card),
		isSteady: (card) => performance.now() - (movedAt.get(card) ?? Infinity) >= 500,
		stop: () => {
			for (const observer of observers) observer.disconnect();
		}
	};
}
function nudge(card) {
	card.classList.add("nudge");
	setTimeout(() => card.classList.remove("nudge"), 300);
}
// src/pure/grant.ts
var unlimited = (proposal) => ({
	proposal,
	untilMs: void 0,
	uses: void 0,
	isOfSession: false,
	directory: void 0
});
var proposalsOf = ({ proposals = [] }) => proposals;
function grantOf({ sessionKey }, { proposal, untilMs, uses, isOfSession, directory }) {
	return {
		proposal,
		...untilMs !== void 0 && { expiresAtMs: untilMs },
		...uses !== void 0 && { maxUses: uses },
		...isOfSession && { sessionKey },
		...directory !== void 0 && { directory }
	};
}
var narrowingOf = ({ proposal, expiresAtMs, maxUses, sessionKey, directory }) => ({
	proposal,
	untilMs: expiresAtMs ?? void 0,
	uses: maxUses ?? void 0,
	isOfSession: Boolean(sessionKey),
	directory: directory ?? void 0
});
var AFTER = [
	"ask",
	"mute-30",
	"mute-60",
	"never",
	"agent-30",
	"agent-60"
];
var ofAgent = (after) => after.startsWith("agent");
function leaves(after, untilMs) {
	if (after === "never") return { never: true };
	return untilMs === void 0 ? {} : { mute: {
		untilMs,
		...ofAgent(after) && { agent: true }
	} };
}
var HEAD_LINES = 6;
var TAIL_LINES = 4;
var LINE_CHARS = 90;
function folded(pieces) {
	const cells = pieces.flatMap(taken);
	const places = linesOf(cells);
	const last = places.at(-1) ?? 0;
	if (last < 12) return {
		head: [...pieces],
		hidden: [],
		tail: [],
		lines: 0
	};
	const from = places.findIndex((line) => line >= HEAD_LINES);
	const to = places.findIndex((line) => line > last - TAIL_LINES);
	return {
		head: joinedAgain(cells.slice(0, from)),
		hidden: joinedAgain(cells.slice(from, to)),
		tail: joinedAgain(cells.slice(to)),
		lines: last + 1 - HEAD_LINES - TAIL_LINES
	};
}
function taken(piece, index) {
	if (piece.kind !== "text") return [{
		piece,
		index,
		text: piece.text
	}];
	return [...piece.text].map((text) => ({
		piece,
		index,
		text
	}));
}
function linesOf(cells) {
	let line = 0;
	let column = 0;
	return cells.map(({ piece, text }) => {
		if (column >= LINE_CHARS) {
			line += 1;
			column = 0;
		}
		const at = line;
		column += piece.kind === "blanks" ? 12 : text.length;
		if (piece.kind === "break") {
			line += 1;
			column = 0;
		}
		return at;
	});
}
function joinedAgain(cells) {
	const found = [];
	let last = -1;
	for (const { piece, index, text } of cells) {
		const before = found.at(-1);
		if (index === last && before) before.text += text;
		else found.push({
			...piece,
			text
		});
		last = index;
	}
	return found;
}
// node_modules/preact/jsx-runtime/src/index.js
var vnodeId = 0;
Array.isArray;
function createVNode(type, props, key, isStaticChildren, __source, __self) {
	if (!props) props = {};
	let normalizedProps = props, ref, i;
	if ("ref" in normalizedProps && typeof type != "function") {
		normalizedProps = {};
		for (i in props) if (i == "ref") ref = props[i];
		else normalizedProps[i] = props[i];
	}
	const vnode = {
		type,
		props: normalizedProps,
		key,
		ref,
		_children: null,
		_parent: null,
		_depth: 0,
		_dom: null,
		_component: null,
		constructor: VNODE_MARKER,
		_original: --vnodeId,
		_index: -1,
		_flags: 0
	};
	if (__source || __self) {
		vnode.__source = __source;
		vnode.__self = __self;
	}
	if (options$1.vnode) options$1.vnode(vnode);
	return vnode;
}
// src/view/command.tsx
function firstShown({ display, command }) {
	const found = pieces(command);
	return {
		all: marked(!display.truncated && joined(found) === display.text ? found : [{
			kind: "text",
			text: display.text
		}], display.spans),
		isCut: display.truncated
	};
}
function mustOpen(approval) {
	const { all, isCut } = firstShown(approval);
	return isCut || folded(all).hidden.length > 0;
}
function CommandBlock({ approval }) {
	const code = useRef(null);
	const [isOpening, setOpening] = useState(false);
	const first = useMemo(() => firstShown(approval), [approval.id]);
	const parts = useMemo(() => folded(first.all), [first]);
	const isOpen = isRead(approval.id);
	const isFolded = (first.isCut || parts.hidden.length > 0) && !isOpen;
	const all = useMemo(() => isOpen && first.isCut ? marked(pieces(approval.command), []) : first.all, [isOpen, first]);
	const size = [...approval.command].length.toLocaleString("en");
	useLayoutEffect(() => {
		if (isOpening && isOpen) code.current?.focus({ preventScroll: true });
	}, [isOpening, isOpen]);
	return createVNode("div", {
		class: "command-block",
		children: [
			createVNode("pre", {
				ref: code,
				class: isFolded ? "command" : "command open",
				id: `command-${approval.id}`,
				role: "group",
				"aria-label": isOpening ? "Complete command" : "Command",
				dir: "ltr",
				tabIndex: isOpening ? 0 : void 0,
				children: isFolded && parts.hidden.length > 0 ? createVNode(Fragment, { children: [
					createVNode(Pieces, { all: parts.head }),
					createVNode("span", {
						class: "fold",
						children: `… ${parts.lines === 1 ? "1 line is" : `${parts.lines} lines are`} not shown …`
					}),
					createVNode(Pieces, { all: parts.tail })
				] }) : createVNode(Pieces, { all })
			}),
			isFolded && createVNode("button", {
				type: "button",
				class: "more",
				onClick: () => {
					setOpening(true);
					markRead(approval.id);
				},
				children: `Show all ${size} characters`
			}),
			createVNode(Warnings, { approval })
		]
	});
}
function Warnings({ approval: { display, command } }) {
	const notes = display.warnings.map(({ message }) => message);
	const mixed = mixedWords(command);
	if (mixed.length && !display.warnings.some(({ code }) => code === "mixed-scripts")) notes.push(`letters of different scripts in one word: ${brief(mixed.join(", "), 80)}`);
	if (!notes.length) return null;
	return createVNode("ul", {
		class: "warnings",
		"aria-label": "About the text",
		children: notes.map((note) => createVNode("li", { children: createVNode("bdi", { children: visible(note) }) }, note))
	});
}
function Pieces({ all }) {
	return createVNode(Fragment, { children: all.map((piece, at) => createVNode(PieceView, { ...piece }, at)) });
}
function PieceView({ kind, text, span }) {
	const segment = span >= 0 ? ` seg seg-${span % 4}` : "";
	if (kind === "unseen") return createVNode("span", {
		class: `unseen-char${segment}`,
		children: text
	});
	if (kind === "break") return createVNode(Fragment, { children: [createVNode("span", {
		class: `unseen-char line-break${segment}`,
		children: text
	}), "\n"] });
	if (kind === "blanks") return createVNode("span", {
		class: "blanks",
		title: `${text.length} blanks in a row`,
		children: `${text.length} blanks`
	});
	return span >= 0 ? createVNode("span", {
		class: segment.trim(),
		children: text
	}) : createVNode(Fragment, { children: text });
}
// src/view/common.tsx
var Mono = ({ text }) => createVNode("code", {
	dir: "ltr",
	children: visible(text)
});
var Fact = ({ name, children, class: kind = "" }) => createVNode("div", {
	class: kind ? `fact ${kind}` : "fact",
	children: [createVNode("dt", { children: name }), createVNode("dd", { children })]
});
function Time({ ms }) {
	const at = new Date(ms ?? NaN);
	return Number.isNaN(at.getTime()) ? createVNode(Fragment, { children: "at an unknown time" }) : createVNode("time", {
		dateTime: at.toISOString(),
		children: at.toLocaleString()
	});
}
var Wrong = ({ text, id }) => createVNode("p", {
	class: "problem",
	role: "alert",
	id,
	hidden: !text,
	children: visible(text ?? "")
});
// src/view/details.tsx
var SAID = new Set(["no entry covers this"]);
var ARGUMENT_CHARS = 400;
var SEGMENTS_SHOWN = 12;
function Details({ approval, known }) {
	const { why } = approval;
	const later = useValue(record);
	return createVNode("div", {
		class: "details",
		children: [
			createVNode(Said, { approval }),
			createVNode("p", {
				class: "why",
				children: [createVNode("strong", { children: rule(why.rule) }), SAID.has(why.detail) || why.rule === "ask-always" ? "" : createVNode(Fragment, { children: [": ", createVNode("bdi", { children: visible(why.detail) })] })]
			}),
			createVNode(Unusual, {
				approval,
				known
			}),
			later && known.past && known.past.length > 0 && createVNode(later.Past, {
				approval,
				runs: known.past
			}),
			createVNode(Parts, { approval }),
			later && createVNode(later.AuditFacts, { approval })
		]
	});
}
function Said({ approval: { justification, contextUrl } }) {
	if (!justification && !contextUrl) return null;
	return createVNode("p", {
		class: "said",
		children: [
			createVNode("span", {
				class: "said-by",
				children: "The agent says"
			}),
			" ",
			justification && createVNode("q", { children: createVNode("bdi", { children: visible(justification) }) }),
			contextUrl && createVNode(Fragment, { children: [" ", createVNode(Mono, { text: contextUrl })] })
		]
	});
}
function Unusual({ approval, known }) {
	const overrides = known.overrides && overridden(known.overrides);
	return createVNode("dl", {
		class: "facts",
		children: [
			createVNode(Fact, {
				name: "Directory",
				children: createVNode(Mono, { text: approval.cwd })
			}),
			createVNode(Variables, { approval }),
			overrides && createVNode(Fact, {
				name: "Session overrides",
				class: "overrides",
				children: visible(overrides)
			}),
			entitled(approval) && createVNode(Fact, {
				name: "Who may allow it",
				children: createVNode("bdi", { children: visible(entitled(approval)) })
			}),
			approval.scripts && approval.scripts !== "held" && createVNode(Fact, {
				name: "Scripts",
				children: visible(approval.scripts)
			})
		]
	});
}
function Variables({ approval: { envNames, envValues = {}, envOmitted = 0 } }) {
	if (!envNames.length) return null;
	return createVNode(Fact, {
		name: "Environment",
		class: "environment",
		children: createVNode("ul", {
			class: "variables",
			children: [envNames.map((name) => createVNode("li", { children: createVNode(Mono, { text: Object.hasOwn(envValues, name) ? `${name}=${envValues[name]}` : name }) }, name)), envOmitted > 0 && createVNode("li", { children: createVNode("em", { children: `${envOmitted} more variables, not named` }) })]
		})
	});
}
function Parts({ approval }) {
	const [isOpen, setOpen] = useState(false);
	const rows = [];
	collect(approval.segments, 0, rows);
	if (!rows.length) {
		const { argv, shell } = approval.boundTo;
		if (!argv) return createVNode("p", {
			class: "warn-line",
			children: `Too complex to analyse; ${visible(shell ?? "a shell")} will interpret it as written.`
		});
		rows.push({
			segment: {
				argv,
				match: { kind: "none" },
				wrappers: [],
				notes: []
			},
			depth: 0,
			span: -1
		});
	}
	const shown = isOpen ? rows : rows.slice(0, SEGMENTS_SHOWN);
	return createVNode(Fragment, { children: [createVNode("ol", {
		class: "segments",
		"aria-label": "Parts of the command",
		children: shown.map((row, at) => createVNode(Part, {
			row,
			approval,
			isOnly: rows.length === 1
		}, at))
	}), shown.length < rows.length && createVNode("button", {
		type: "button",
		class: "more",
		onClick: () => setOpen(true),
		children: `Show ${rows.length - shown.length} more parts`
	})] });
}
function collect(segments, depth, rows) {
	segments.forEach((segment, index) => {
		rows.push({
			segment,
			depth,
			span: depth ? -1 : index
		});
		collect(segment.segments ?? [], depth + 1, rows);
	});
}
function Part({ row: { segment, depth, span }, approval, isOnly }) {
	const { argv, filled, operator, wrappers, resolvedPath, match, inlineEval, notes } = segment;
	const at = approval.why.span?.[0];
	const [from = 0, to = 0] = segment.span ?? [];
	const asks = !isOnly && !segment.segments && segment.span && at !== void 0 && at >= from && at < to;
	const covered = match.kind !== "none" && match.kind !== "payload";
	return createVNode("li", {
		class: `segment depth-${Math.min(depth, 3)}${span >= 0 ? ` edge-${span % 4}` : ""}`,
		children: [!isOnly && createVNode("p", {
			class: "argv",
			dir: "ltr",
			children: [operator && createVNode("span", {
				class: "operator",
				children: visible(operator)
			}), argv.map((argument, index) => createVNode("code", {
				class: "arg",
				children: filled?.some(({ word }) => word === index) ? `"${argumentText(argument)}"` : argumentText(argument)
			}, index))]
		}), createVNode("p", {
			class: "path",
			children: [
				resolvedPath ? createVNode(Fragment, { children: [createVNode("span", {
					class: "arrow",
					"aria-hidden": "true",
					children: "→ "
				}), createVNode(Mono, { text: resolvedPath })] }) : match.kind === "builtin" ? createVNode("em", { children: "part of the shell" }) : createVNode("span", {
					class: "chip bad",
					children: "no file found"
				}),
				wrappers.length > 0 && createVNode("span", {
					class: "chip",
					children: `through ${visible(wrappers.map(({ name }) => name).join(", "))}`
				}),
				filled && createVNode("span", {
					class: "chip",
					children: "parts filled in at the start"
				}),
				inlineEval && createVNode("span", {
					class: "chip warn",
					children: "code inside the command"
				}),
				covered && createVNode("span", {
					class: "chip good",
					children: `covered: ${visible(match.kind)}`
				}),
				asks && createVNode("span", {
					class: "chip wait",
					children: "needs approval"
				}),
				notes.map((note) => createVNode("span", {
					class: "chip",
					children: visible(note)
				}, note))
			]
		})]
	});
}
function argumentText(argument) {
	if (argument === "") return "''";
	const characters = [...visible(argument)];
	if (characters.length <= ARGUMENT_CHARS) return characters.join("");
	return `${characters.slice(0, ARGUMENT_CHARS).join("")}… (${characters.length - ARGUMENT_CHARS} more characters, in full in the text above)`;
}
var labelOf = (approval) => brief(lineOf(approval), 60);
var lineOf = ({ display }) => display.text.replaceAll("\n", "");
var placeOf = (approval) => approval.nodeId ? `${approval.host} ${approval.nodeId}` : approval.host;
// src/view/facts.tsx
var chipOf = ({ code }) => code === "missing" || code === "denied" || code === "network" ? "chip bad" : "chip warn";
function FactChips({ facts }) {
	if (!facts.length) return null;
	return createVNode("ul", {
		class: "facts-line",
		"aria-label": "What to look at",
		children: facts.map((fact) => createVNode("li", {
			class: chipOf(fact),
			"data-fact": fact.code,
			children: visible(fact.text)
		}, fact.code))
	});
}
// src/view/card.tsx
var URGENT_MS$1 = 6e4;
var PAST_PAUSE_MS = 150;
var drafts = new Map();
function Card({ name, entry, all, guard }) {
	const { approval } = entry;
	const phase = all.find((each) => each.phase === "sending")?.phase ?? all.find((each) => each.phase === "pending")?.phase ?? "settled";
	const isGroup = all.length > 1;
	const open = all.filter(isOpen);
	const times = isGroup ? ` ${phase === "pending" ? open.length : all.length}` : "";
	const sessions = new Set(all.map((each) => each.approval.sessionKey)).size;
	const key = approval.id;
	const label = labelOf(approval);
	const isOnline = useValue(online);
	useValue(ticks);
	useValue(drawn);
	const wide = useValue(record);
	const root = useRef(null);
	const article = useRef(null);
	const field = useRef(null);
	const back = useRef(null);
	const [mode, setMode] = useState("answer");
	const [reason, setReason] = useState(drafts.get(key) ?? "");
	const [narrowed, setNarrowed] = useState(() => unlimited(proposalsOf(approval)[0]?.id ?? ""));
	const [afterwards, setAfterwards] = useState({
		after: "ask",
		untilMs: void 0
	});
	const known = useKnown(approval, () => root.current && guard()?.unsettle(root.current));
	const past = {
		overrides: known.overrides,
		runsBefore: known.past?.filter(({ startedAtMs }) => startedAtMs !== void 0).length
	};
	const facts = factsOf(approval, past);
	const isUnread = mustOpen(approval) && !isRead(key);
	const msLeft = Math.min(...all.map((each) => each.approval.expiresAtMs)) - serverNow();
	const canDecide = may("approve");
	const isProposed = proposalsOf(approval).some(({ id }) => id === narrowed.proposal);
	function blocked(decision) {
		if (!isOnline) return "Offline. You can answer once the server is back.";
		if (msLeft <= 0) return "The time is up.";
		if (isGroup && !wide) return "Loading …";
		if (decision !== "deny" && !open.length && phase === "pending") return "You have allowed this. It waits for another person.";
		if (decision !== "deny" && isUnread) return "Show all of the command before you allow it.";
		if (approval.allowedDecisions.includes(decision)) return "";
		if (decision === "allow-always") return wide?.whyNoAlways(approval) ?? "“Always” is unavailable here.";
		return "This answer is not available here.";
	}
	function turn(next, focus) {
		if (root.current) guard()?.unsettle(root.current);
		back.current = focus ?? null;
		setMode(next);
	}
	function close() {
		if (mode === "answer") return false;
		const { current } = back;
		turn("answer");
		queueMicrotask(() => (current?.isConnected ? current : article.current)?.focus({ preventScroll: true }));
		return true;
	}
	function press(what, from, isWrittenFor = false) {
		const decision = what === "open-deny" || what === "open-revise" ? "deny" : what === "open-always" ? "allow-always" : what === "open-note" ? void 0 : what;
		if (phase !== "pending" || !canDecide || decision && blocked(decision)) return;
		if (!root.current || !article.current) return;
		if (what === "open-deny") return turn("deny", from);
		if (what === "open-note") return turn("note", from);
		if (what === "open-revise") return isGroup ? void 0 : turn("revise", from);
		if (what === "open-always") return turn(mode === "always" ? "answer" : "always", from);
		if (!isWrittenFor && !guard()?.isSteady(root.current)) return nudge(article.current);
		if (what !== "allow-always" || isProposed) send(what);
	}
	function send(decision) {
		const said = reason.trim();
		const options = {
			...said && { reason: said },
			...decision === "allow-always" && { grant: grantOf(approval, narrowed) },
			...decision === "deny" && leaves(afterwards.after, afterwards.untilMs)
		};
		if (decision === "deny") keepReason(said);
		if (!isGroup) return void decide(key, decision, options);
		const to = decision === "deny" ? all.filter((each) => each.phase === "pending") : open;
		wide?.decideTogether(to.map((each) => each.approval.id), decision, options);
	}
	const changed = (set) => (value) => {
		if (root.current) guard()?.unsettle(root.current);
		set(value);
	};
	function write(text) {
		setReason(text);
		drafts.set(key, text);
	}
	useLayoutEffect(() => {
		const doing = {
			once: "allow-once",
			always: "open-always",
			deny: "open-deny",
			reason: "open-note",
			edit: "open-revise"
		};
		return setCard({
			press: (name) => press(doing[name]),
			escape: close
		});
	});
	const isWritten = mode === "note" || mode === "deny";
	useLayoutEffect(() => {
		if (isWritten) field.current?.focus();
		if (mode === "always") root.current?.querySelector("[data-decision=confirm-always]")?.focus({ preventScroll: true });
	}, [mode]);
	useLayoutEffect(() => {
		if (root.current) guard()?.unsettle(root.current);
	}, [all.map((each) => each.approval.id).join()]);
	useLayoutEffect(() => {
		if (phase !== "settled") return;
		setMode("answer");
		drafts.delete(key);
		if (document.activeElement === document.body || !document.activeElement?.isConnected) article.current?.focus({ preventScroll: true });
	}, [phase]);
	const isPlainNow = sessions === 1 && isPlain(approval, past);
	const isSent = (decision) => all.some((each) => each.phase === "sending" && each.decision === decision);
	const reasons = [...new Set((mode === "deny" ? ["deny"] : [
		"allow-once",
		"allow-always",
		"deny"
	]).map(blocked).filter(Boolean))];
	const whyNot = phase === "sending" ? "Sending your answer …" : reasons[0] ?? "";
	const end = phase === "settled" ? outcome(approval, entry.mine) : void 0;
	const said = phase === "settled" ? "" : progress(approval);
	const act = (decision, name, letter, onClick, kind = "", expanded) => createVNode("button", {
		type: "button",
		class: `act ${decision} ${kind}${isSent(decision) ? " busy" : ""}`,
		"data-decision": decision,
		"aria-label": `${name}: ${label}`,
		"aria-keyshortcuts": letter,
		"aria-disabled": phase === "sending" || Boolean(blocked(decision)),
		"aria-describedby": blocked(decision) ? `why-not-${key}` : void 0,
		"aria-expanded": expanded,
		onClick,
		children: createVNode("span", {
			class: "act-text",
			"data-key": letter,
			children: name
		})
	});
	const target = (event) => event.currentTarget;
	return createVNode("div", {
		class: "card-item",
		ref: root,
		"data-id": name,
		"data-phase": phase,
		children: createVNode("article", {
			class: "card",
			ref: article,
			tabIndex: -1,
			"aria-labelledby": `title-${key}`,
			"aria-describedby": `command-${key}`,
			"aria-busy": phase === "sending",
			"data-tone": end?.tone,
			children: [
				createVNode("header", {
					class: "card-head",
					children: [
						!only && createVNode("button", {
							type: "button",
							class: "quiet card-back",
							onClick: closeCard,
							children: "‹ List"
						}),
						createVNode("h2", {
							class: "card-title",
							id: `title-${key}`,
							children: [
								createVNode("bdi", { children: visible(approval.agentId) }),
								" asks to run on ",
								createVNode("bdi", { children: visible(placeOf(approval)) })
							]
						}),
						phase !== "settled" && createVNode("span", {
							class: msLeft <= URGENT_MS$1 ? "left urgent" : "left",
							children: msLeft > 0 ? `${timeLeft(msLeft)} left` : "Time is up"
						})
					]
				}),
				createVNode("div", {
					class: "card-body",
					children: [
						isGroup && wide && createVNode(wide.Times, {
							name,
							all,
							sessions
						}),
						createVNode(CommandBlock, { approval }),
						approval.revises && wide && createVNode(wide.Revised, { approval }),
						createVNode(Details, {
							approval,
							known
						})
					]
				}),
				createVNode("div", {
					class: "card-foot",
					children: [
						end && wide && (isGroup ? createVNode(wide.Results, { all }) : createVNode(wide.Ended, {
							entry,
							label,
							article
						})),
						createVNode("p", {
							class: "votes",
							role: "status",
							hidden: !said,
							children: visible(said)
						}),
						createVNode(Wrong, { text: isGroup ? void 0 : entry.problem }),
						isGroup && phase !== "settled" && wide && createVNode(wide.Results, { all: all.filter((each) => each.problem) }),
						phase !== "settled" && createVNode(FactsLine, {
							facts,
							known
						}),
						phase !== "settled" && wide && createVNode(wide.HeldBack, { approval }),
						phase !== "settled" && !canDecide && createVNode("p", {
							class: "hint",
							children: "You can look at this, but not answer: your sign-in lacks the scope approve."
						}),
						phase !== "settled" && canDecide && createVNode("div", {
							class: "answer",
							children: [
								createVNode("div", {
									class: "note",
									hidden: !isWritten,
									children: [
										createVNode("label", {
											for: `reason-${key}`,
											children: mode === "deny" ? "Why? The agent sees this (optional)" : "Reason (optional, goes on the record)"
										}),
										createVNode("input", {
											ref: field,
											id: `reason-${key}`,
											type: "text",
											maxLength: 2e3,
											autocomplete: "off",
											value: reason,
											onInput: (event) => write(event.currentTarget.value),
											onKeyDown: (event) => {
												if (event.key !== "Enter" || event.repeat || event.isComposing) return;
												event.preventDefault();
												if (mode === "deny") press("deny", void 0, true);
												else close();
											}
										}),
										mode === "deny" && wide && createVNode(wide.Reasons, { choose: write }),
										mode === "deny" && wide && createVNode(wide.AfterDenial, {
											approval,
											chosen: afterwards,
											choose: changed(setAfterwards)
										})
									]
								}),
								createVNode("fieldset", {
									class: "always",
									id: `always-${key}`,
									hidden: mode !== "always",
									children: [
										createVNode("legend", { children: `From now on ${brief(approval.agentId, 40)} may run without asking` }),
										mode === "always" && (wide ? createVNode(wide.AlwaysPanel, {
											approval,
											narrowed,
											narrow: changed(setNarrowed)
										}) : createVNode("p", {
											class: "hint",
											children: "Loading …"
										})),
										createVNode("div", {
											class: "always-end",
											children: [
												mode === "always" && wide && createVNode(wide.StoredList, {
													approval,
													narrowed,
													others: open.slice(1).map((each) => each.approval)
												}),
												createVNode("button", {
													type: "button",
													class: "quiet",
													onClick: close,
													children: "Back"
												}),
												createVNode("button", {
													type: "button",
													class: `act allow-always${isSent("allow-always") ? " busy" : ""}`,
													"data-decision": "confirm-always",
													"aria-disabled": phase === "sending" || !isProposed || Boolean(blocked("allow-always")),
													onClick: () => press("allow-always"),
													children: createVNode("span", {
														class: "act-text",
														children: "Store and allow"
													})
												})
											]
										})
									]
								}),
								mode === "revise" && (wide ? createVNode(wide.Revise, {
									approval,
									close,
									blocked: blocked("deny")
								}) : createVNode("p", {
									class: "hint",
									children: "Loading …"
								})),
								mode === "deny" ? createVNode("div", {
									class: "actions two",
									role: "group",
									"aria-label": `Deny: ${label}`,
									children: [createVNode("button", {
										type: "button",
										class: "act",
										onClick: close,
										children: "Back"
									}), createVNode("button", {
										type: "button",
										class: `act deny${isSent("deny") ? " busy" : ""}`,
										"data-decision": "confirm-deny",
										"aria-disabled": phase === "sending" || Boolean(blocked("deny")),
										onClick: () => press("deny"),
										children: createVNode("span", {
											class: "act-text",
											"data-key": "Enter",
											children: `Deny${times}`
										})
									})]
								}) : mode !== "always" && mode !== "revise" && createVNode("div", {
									class: "actions",
									role: "group",
									"aria-label": `Your answer to: ${label}`,
									children: [
										act("deny", `Deny${times}`, "d", (event) => press("open-deny", target(event))),
										act("allow-always", "Always…", "A", (event) => press("open-always", target(event)), "", false),
										act("allow-once", `Allow${times} once`, "a", () => press("allow-once"), isPlainNow ? "plain" : "")
									]
								}),
								createVNode("div", {
									class: "under",
									children: [
										createVNode("p", {
											class: "hint why-not",
											id: `why-not-${key}`,
											children: whyNot
										}),
										mode === "answer" && !isGroup && createVNode("button", {
											type: "button",
											class: "quiet",
											"data-open": "revise",
											onClick: (event) => press("open-revise", event.currentTarget),
											children: "Suggest another command"
										}),
										mode === "answer" && createVNode("button", {
											type: "button",
											class: "quiet note-toggle",
											onClick: (event) => press("open-note", event.currentTarget),
											children: "Add a reason"
										})
									]
								})
							]
						})
					]
				})
			]
		})
	});
}
function useKnown(approval, changed) {
	const [known, setKnown] = useState({
		overrides: void 0,
		past: void 0,
		isLost: !may("read")
	});
	useEffect(() => {
		if (!may("read")) return void 0;
		let isOver = false;
		const add = (more) => {
			if (isOver) return;
			changed();
			setKnown((now) => ({
				...now,
				...more
			}));
		};
		const timer = setTimeout(() => {
			const lost = () => add({ isLost: true });
			if (approval.status === "pending") overridesOf(approval).then((overrides) => add({ overrides }), lost);
			pastRuns(approval).then((past) => add({ past }), lost);
		}, PAST_PAUSE_MS);
		return () => {
			isOver = true;
			clearTimeout(timer);
		};
	}, [approval.id]);
	return known;
}
function FactsLine({ facts, known: { overrides, past, isLost } }) {
	const said = overrides !== void 0 && past !== void 0 ? "No known risk found. That does not make it safe." : isLost ? "The record could not be read, so its history is unknown." : "Looking at the record …";
	if (!facts.length) return createVNode("p", {
		class: "facts-line hint",
		children: said
	});
	return createVNode(FactChips, { facts });
}
// src/pure/window.ts
var MARGIN = 8;
function inSight(count, top, height, px) {
	const from = Math.max(0, Math.min(count - 1, Math.floor(top / px)) - MARGIN);
	const to = Math.min(count, from + 100, Math.ceil((top + height) / px) + MARGIN);
	return {
		from,
		to: Math.max(from, to)
	};
}
// src/view/list.tsx
var URGENT_MS = 6e4;
function List() {
	useValue(drawn);
	useValue(filter);
	const marked = useValue(chosen);
	useValue(opened$1);
	const next = useValue(focusNext);
	const box = useRef(null);
	const [sight, setSight] = useState({
		top: 0,
		height: 800
	});
	const all = rows();
	const px = matchMedia("(min-width: 60rem) and (not (pointer: coarse))").matches ? 40 : 48;
	const { from, to } = inSight(all.length, sight.top, sight.height, px);
	const look = () => {
		const { current } = box;
		if (!current) return;
		const { scrollTop, clientHeight } = current;
		setSight((before) => before.top === scrollTop && before.height === clientHeight ? before : {
			top: scrollTop,
			height: clientHeight
		});
	};
	useLayoutEffect(() => {
		if (!box.current) return void 0;
		const observer = new ResizeObserver(look);
		observer.observe(box.current);
		return () => observer.disconnect();
	}, [all.length > 0]);
	const shown = openRow(all);
	const at = shown ? all.indexOf(shown) : -1;
	useLayoutEffect(() => {
		const { current } = box;
		if (!current || at < 0 || !current.clientHeight) return;
		const top = at * px;
		if (top < current.scrollTop) current.scrollTop = top;
		else if (top + px > current.scrollTop + current.clientHeight) current.scrollTop = top + px - current.clientHeight;
		look();
	}, [shown?.name]);
	useLayoutEffect(() => {
		if (next?.where !== "row") return;
		const row = box.current?.querySelector(`[data-row="${CSS.escape(next.id)}"] .row-open`);
		if (!row) return;
		focusNext.set(void 0);
		row.focus({ preventScroll: true });
	});
	if (!all.length) return null;
	return createVNode("div", {
		class: "rows-box",
		ref: box,
		onScroll: look,
		children: createVNode("ol", {
			class: "rows",
			id: "rows",
			"aria-labelledby": "waiting-title",
			children: [
				from > 0 && createVNode("li", {
					class: "rows-gap",
					"aria-hidden": "true",
					ref: (gap) => gap?.style.setProperty("height", `${from * px}px`)
				}),
				all.slice(from, to).map((row, index) => createVNode(Row, {
					row,
					isOpen: row === shown,
					isChosen: row.entries.every(({ approval }) => marked.has(approval.id)),
					at: from + index + 1,
					of: all.length
				}, row.name)),
				to < all.length && createVNode("li", {
					class: "rows-gap",
					"aria-hidden": "true",
					ref: (gap) => gap?.style.setProperty("height", `${(all.length - to) * px}px`)
				})
			]
		})
	});
}
function Row({ row: { name, lead, entries, kind, isOpen: isUnfolded }, isOpen, isChosen, at, of }) {
	const { approval } = lead;
	const label = labelOf(approval);
	const count = entries.length;
	const isGroup = count > 1;
	const phase = (entries.find((entry) => entry.phase !== "settled") ?? lead).phase;
	const alike = kind === "equal" || phase !== "settled" ? `${kind} ` : "";
	const problem = entries.some((entry) => entry.problem);
	return createVNode("li", {
		class: `row ${kind}${isOpen ? " is-open" : ""}`,
		"data-row": name,
		"data-phase": phase,
		"aria-posinset": at,
		"aria-setsize": of,
		children: [createVNode("button", {
			type: "button",
			class: "row-open",
			"aria-current": isOpen ? "true" : void 0,
			onClick: () => open(name, "card"),
			children: [createVNode("code", {
				class: "row-command",
				dir: "ltr",
				children: brief(lineOf(approval), 160)
			}), createVNode("span", {
				class: "row-meta",
				children: [
					createVNode("bdi", {
						class: "row-agent",
						children: brief(approval.agentId, 24)
					}),
					isGroup && createVNode("span", {
						class: "times",
						children: [createVNode("span", {
							"aria-hidden": "true",
							children: `×${count}${alike === "similar " ? " similar" : ""}`
						}), createVNode("span", {
							class: "unseen",
							children: `${count} ${alike}requests`
						})]
					}),
					phase === "settled" ? createVNode(RowEnd, { entries }) : createVNode(Fragment, { children: [
						problem && createVNode("span", {
							class: "chip bad",
							children: "not answered"
						}),
						phase === "sending" && createVNode("span", {
							class: "chip wait",
							children: "sending"
						}),
						progress(approval) && createVNode("span", {
							class: "chip wait",
							children: `${(approval.votes ?? []).length} of ${approval.approvalsRequired}`
						}),
						createVNode(RowFacts, { facts: factsOfAll(kind === "similar" ? entries : [lead]) }),
						createVNode(Left, { ms: Math.min(...entries.map((entry) => entry.approval.expiresAtMs)) })
					] })
				]
			})]
		}), isGroup ? createVNode("button", {
			type: "button",
			class: "row-unfold",
			"aria-expanded": isUnfolded,
			"aria-label": `List the ${count} ${alike}requests: ${label}`,
			onClick: () => unfold(name)
		}) : phase !== "settled" && may("approve") && createVNode("label", {
			class: "row-tick",
			children: createVNode("input", {
				type: "checkbox",
				checked: isChosen,
				"aria-label": `Choose ${label}`,
				onChange: () => choose(name)
			})
		})]
	});
}
function RowEnd({ entries }) {
	const [entry] = entries;
	const { tone, title, detail } = outcome(entry.approval, entry.mine);
	const titles = entries.map(({ approval, mine }) => outcome(approval, mine).title);
	const each = [...new Set(titles)];
	if (each.length > 1) return createVNode("span", {
		class: "ended tone-warn",
		children: each.map((one) => `${titles.filter((other) => other === one).length} ${visible(one)}`).join(" · ")
	});
	const run = entries.length === 1 && entry.approval.status === "allowed" && entry.run ? `${runStatus(entry.run.status ?? "queued").label} ${runFacts(entry.run)}` : "";
	return createVNode("span", {
		class: `ended tone-${tone}`,
		children: [
			visible(title),
			visible(detail),
			run
		].filter(Boolean).join(" · ")
	});
}
function factsOfAll(entries) {
	const all = entries.flatMap(({ approval }) => factsOf(approval, {
		overrides: void 0,
		runsBefore: void 0
	}));
	return all.filter(({ code }, at) => all.findIndex((fact) => fact.code === code) === at);
}
function RowFacts({ facts }) {
	const [first, ...rest] = facts;
	if (!first) return null;
	return createVNode(Fragment, { children: [createVNode("span", {
		class: chipOf(first),
		children: visible(first.text)
	}), rest.length > 0 && createVNode("span", {
		class: "chip warn",
		children: `+${rest.length}`
	})] });
}
function Left({ ms }) {
	useValue(ticks);
	const left = ms - serverNow();
	return createVNode("span", {
		class: left <= URGENT_MS ? "left urgent" : "left",
		children: left > 0 ? timeLeft(left) : "Time is up"
	});
}
// src/view/nav.tsx
var VIEWS = {
	overview: {
		title: "Overview",
		needs: "read",
		load: () => __vitePreload(() => import("./overview.js").then((view) => view.Overview), [])
	},
	runs: {
		title: "Runs",
		needs: "read",
		load: () => __vitePreload(() => import("./runs.js").then((view) => view.Runs), [])
	},
	history: {
		title: "History",
		needs: "read",
		load: () => __vitePreload(() => import("./history.js").then((view) => view.History), [])
	},
	terminals: {
		title: "Terminals",
		needs: "read",
		load: () => __vitePreload(() => import("./runs.js").then((view) => view.Terminals), [])
	},
	sessions: {
		title: "Sessions",
		needs: "read",
		load: () => __vitePreload(() => import("./sessions.js").then((view) => view.Sessions), [])
	},
	nodes: {
		title: "Nodes",
		needs: "read",
		load: () => __vitePreload(() => import("./nodes.js").then((view) => view.Nodes), [])
	},
	policy: {
		title: "Policy",
		needs: "read",
		load: () => __vitePreload(() => import("./policy.js").then((view) => view.Policy), [])
	},
	people: {
		title: "People",
		needs: "admin",
		load: () => __vitePreload(() => import("./people.js").then((view) => view.People), [])
	},
	audit: {
		title: "Audit",
		needs: "admin",
		load: () => __vitePreload(() => import("./audit.js").then((view) => view.Audit), [])
	},
	health: {
		title: "Health",
		needs: "read",
		load: () => __vitePreload(() => import("./health.js").then((view) => view.Health), [])
	}
};
var titleOf = (view) => view === "inbox" ? "Inbox" : VIEWS[view].title;
var offered = () => NAMES.filter((name) => name === "inbox" || may(VIEWS[name].needs));
function Nav() {
	const { view: now } = useValue(place);
	useValue(me);
	const asking = useValue(pairingsWaiting);
	const [isOpen, setOpen] = useState(false);
	const all = offered();
	useEffect(() => setOpen(false), [now]);
	if (all.length < 2) return null;
	return createVNode("nav", {
		class: "views",
		"aria-label": "Views",
		onKeyDown: (event) => {
			if (event.key === "Escape") setOpen(false);
		},
		children: [createVNode("button", {
			type: "button",
			class: "quiet views-open",
			"aria-expanded": isOpen,
			"aria-controls": "views",
			onClick: () => setOpen(!isOpen),
			children: `${titleOf(now)} ▾`
		}), createVNode("ul", {
			id: "views",
			"aria-label": "Views",
			"data-open": isOpen,
			children: all.map((name) => createVNode("li", { children: createVNode("a", {
				href: addressOf(name),
				"aria-current": name === now ? "page" : void 0,
				"data-view": name,
				children: [titleOf(name), name === "nodes" && asking > 0 && createVNode("span", {
					class: "chip wait",
					children: [asking, createVNode("span", {
						class: "unseen",
						children: " waiting"
					})]
				})]
			}) }, name))
		})]
	});
}
var loaded = new Map();
function Opened({ name }) {
	const { title, needs, load } = VIEWS[name];
	const [, draw] = useState(0);
	const [isMissing, setMissing] = useState(false);
	const View = loaded.get(name);
	const isKnown = useValue(me) !== void 0;
	const mayOpen = may(needs);
	useEffect(() => {
		if (loaded.has(name) || !mayOpen) return;
		load().then((view) => {
			loaded.set(name, view);
			draw((count) => count + 1);
		}, () => setMissing(true));
	}, [name, mayOpen]);
	return createVNode("section", {
		class: "view",
		id: `view-${name}`,
		"aria-labelledby": "view-title",
		children: [createVNode("div", {
			class: "section-head",
			children: createVNode("h1", {
				id: "view-title",
				tabIndex: -1,
				children: title
			})
		}), isKnown && !mayOpen ? createVNode("p", {
			class: "blank",
			children: `Your sign-in lacks the scope ${needs}, which this view needs.`
		}) : View && mayOpen ? createVNode(View, {}) : isMissing ? createVNode(Missing, {}) : createVNode("p", {
			class: "hint",
			children: "Loading …"
		})]
	});
}
function Missing() {
	const [again, setAgain] = useState(0);
	const retry = () => json("GET", "/auth/session").then(() => location.reload(), (error) => error instanceof Refused ? location.reload() : setAgain(again + 1));
	return createVNode("div", {
		role: "alert",
		children: [createVNode("p", { children: [
			"This view could not be loaded",
			again > 0 && `, and the server still does not answer (${again})`,
			"."
		] }), createVNode("button", {
			type: "button",
			id: "view-again",
			onClick: () => void retry(),
			children: "Try again"
		})]
	});
}
function useHeadingFocus(view) {
	const before = useRef(view);
	useLayoutEffect(() => {
		if (before.current === view) return;
		before.current = view;
		scrollTo(0, 0);
		document.querySelector("main h1")?.focus({ preventScroll: true });
	}, [view]);
}
// src/view/inbox.tsx
function Inbox() {
	useValue(drawn);
	const nothing = useValue(blank);
	const words = useValue(filter);
	const isGrouped = useValue(areSimilar);
	const many = useValue(chosen).size;
	const waiting = model.waiting.length;
	const isEmpty = model.entries.size === 0;
	const isNarrowed = !isEmpty && listed().length === 0;
	const later = useValue(record);
	const section = useRef(null);
	useLayoutEffect(() => {
		if (!isEmpty && !performance.getEntriesByName("first-card").length) performance.mark("first-card");
	});
	return createVNode("section", {
		id: "waiting",
		ref: section,
		tabIndex: -1,
		"aria-labelledby": "waiting-title",
		children: [
			createVNode("div", {
				class: "section-head",
				children: [
					createVNode("h1", {
						id: "waiting-title",
						tabIndex: -1,
						children: only ? "One request" : waiting ? `Waiting for you (${waiting.toLocaleString("en")})` : "Waiting for you"
					}),
					!only && (model.entries.size > 1 || words) && createVNode("div", {
						class: "filter",
						children: [
							createVNode("label", {
								class: "unseen",
								for: "filter",
								children: "Filter by agent, program, directory or text"
							}),
							createVNode("input", {
								id: "filter",
								type: "text",
								autocomplete: "off",
								autocapitalize: "none",
								spellcheck: false,
								placeholder: "Filter: agent:build git",
								value: words,
								onInput: (event) => setFilter(event.currentTarget.value)
							}),
							createVNode("button", {
								type: "button",
								class: "quiet",
								id: "similar",
								"aria-pressed": isGrouped,
								onClick: () => setSimilar(!isGrouped),
								children: "Group similar"
							})
						]
					}),
					later && !only && createVNode(later.ChooseAll, {}),
					!only && hasEnded() && createVNode("button", {
						type: "button",
						class: "quiet",
						id: "clear",
						onClick: () => {
							clearEnded();
							section.current?.focus({ preventScroll: true });
						},
						children: "Clear decided"
					}),
					only && createVNode("a", {
						class: "button quiet",
						id: "all",
						href: "/",
						children: "All requests"
					})
				]
			}),
			later && !only && createVNode(later.Mutes, {}),
			isEmpty && createVNode("p", {
				class: "blank",
				id: "blank",
				children: nothing
			}),
			isEmpty && later && !only && createVNode(later.Start, {}),
			isNarrowed && createVNode("p", {
				class: "blank",
				children: `Nothing here matches the filter. ${model.entries.size === 1 ? "One request does not." : `${model.entries.size} requests do not.`}`
			}),
			many > 0 && createVNode("p", {
				class: "chosen-bar",
				children: createVNode("button", {
					type: "button",
					class: "primary",
					id: "answer-chosen",
					onClick: () => isOpened.set(true),
					children: `Answer ${many} together`
				})
			}),
			createVNode("div", {
				class: `inbox${only ? " alone" : ""}`,
				children: [!only && createVNode(List, {}), createVNode(Preview, { isChosen: many > 0 })]
			}),
			only && createVNode(OneRun, {})
		]
	});
}
function Title() {
	useValue(drawn);
	const { view } = useValue(place);
	const waiting = model.waiting.length;
	useLayoutEffect(() => {
		document.title = `${waiting ? `(${waiting}) ` : ""}${view === "inbox" ? "" : `${titleOf(view)} · `}countersign`;
		const icon = document.querySelector("#icon");
		const wanted = waiting ? "/assets/icon-waiting.svg" : "/assets/icon.svg";
		if (icon && icon.getAttribute("href") !== wanted) icon.href = wanted;
	});
	return null;
}
function Preview({ isChosen }) {
	const id = useValue(opened$1);
	const isFull = useValue(isOpened);
	const next = useValue(focusNext);
	const Batch = useValue(record)?.Batch;
	const box = useRef(null);
	const guard = useRef(void 0);
	const wasChosen = useRef(isChosen);
	const wasName = useRef(id);
	const row = only ? void 0 : openRow();
	const entry = row?.lead ?? (id === void 0 ? void 0 : model.entries.get(id));
	const all = row?.entries ?? (entry ? [entry] : []);
	useLayoutEffect(() => {
		if (!box.current) return void 0;
		guard.current = watch(box.current);
		return () => {
			guard.current?.stop();
			document.documentElement.classList.remove("card-open");
		};
	}, []);
	useLayoutEffect(() => {
		guard.current?.look();
		document.documentElement.classList.toggle("card-open", isFull && (Boolean(entry) || isChosen) && !only);
		const hasLost = (wasChosen.current && !isChosen || wasName.current !== id && wasName.current?.startsWith("all-")) && document.activeElement === document.body;
		wasChosen.current = isChosen;
		wasName.current = id;
		const isNext = next?.where === "card" && next.id === id;
		if (isNext) focusNext.set(void 0);
		if (isNext || hasLost) box.current?.querySelector("article")?.focus({ preventScroll: true });
	});
	return createVNode("div", {
		id: "cards",
		class: "preview",
		ref: box,
		"data-open": isFull,
		children: isChosen ? Batch && createVNode(Batch, { guard: () => guard.current }, "chosen") : row?.kind === "similar" ? Batch && createVNode(Batch, {
			row,
			guard: () => guard.current
		}, id) : entry && id !== void 0 && createVNode(Card, {
			name: id,
			entry,
			all,
			guard: () => guard.current
		}, id)
	});
}
function OneRun() {
	const run = useValue(oneRun);
	const Output = useValue(record)?.Output;
	if (!run || !Output || ![
		"completed",
		"failed",
		"running",
		"cancelled",
		"lost"
	].includes(run.status)) return null;
	return createVNode("section", {
		id: "one-run",
		"aria-labelledby": "one-run-title",
		children: [createVNode("h2", {
			id: "one-run-title",
			children: "Output"
		}), createVNode(Output, { run }, run.status)]
	});
}
// src/view/stop.tsx
var PAUSE_MS = 200;
var standing = new State({ stopped: false });
var wanted = new State(void 0);
async function seeStop() {
	if (may("read")) return standing.set(await json("GET", "/v1/stop"));
	const { stopped } = await json("GET", "/readyz");
	const { stop } = standing.value;
	standing.set({
		stopped,
		...stopped && stop ? { stop } : {}
	});
}
var refreshStop = looker(seeStop, PAUSE_MS);
var mayStop = () => may("approve") || may("admin");
function StopButton({ isKnown }) {
	const { stopped } = useValue(standing);
	return createVNode("button", {
		type: "button",
		class: "danger",
		id: "stop-open",
		"aria-haspopup": "dialog",
		hidden: !isKnown || !mayStop() || stopped,
		onClick: () => {
			loadRecord();
			wanted.set("stop");
		},
		children: "Stop everything"
	});
}
function Stopped() {
	const { stopped, stop } = useValue(standing);
	const proposed = stop?.resumeProposedBy;
	return createVNode("section", {
		class: "stopped",
		id: "stopped",
		role: "alert",
		hidden: !stopped,
		children: [createVNode("div", {
			id: "stopped-body",
			children: stopped && createVNode(Fragment, { children: [
				createVNode("h2", {
					id: "stopped-title",
					children: "Everything is stopped"
				}),
				stop && createVNode("p", { children: [
					"Since ",
					createVNode("time", {
						dateTime: new Date(stop.atMs).toISOString(),
						children: new Date(stop.atMs).toLocaleString("en")
					}),
					", by ",
					createVNode("bdi", { children: visible(stop.by.name) }),
					": ",
					createVNode("bdi", {
						class: "why",
						children: visible(stop.reason)
					})
				] }),
				createVNode("p", { children: ["Nothing starts, and no questions are asked. ", stop?.killedBy ? "What was running has been ended." : "What was running continues."] }),
				stop && !stop.durable && createVNode("p", { children: "The record cannot be written at the moment: if the server ends before it can, the stop ends with it." }),
				proposed && createVNode("p", { children: [createVNode("bdi", { children: visible(proposed.name) }), " wants to resume. That takes an admin of another owner."] })
			] })
		}), createVNode("p", {
			class: "stopped-end",
			children: [createVNode("button", {
				type: "button",
				class: "quiet",
				id: "stop-kill-open",
				hidden: !stopped || !mayStop() || Boolean(stop?.killedBy),
				onClick: () => wanted.set("kill"),
				children: "End what is running"
			}), createVNode("button", {
				type: "button",
				id: "resume-open",
				hidden: !stopped || !may("admin"),
				onClick: () => wanted.set("resume"),
				children: "Resume"
			})]
		})]
	});
}
// src/view/shell.tsx
var Mark = () => createVNode("svg", {
	width: "28",
	height: "28",
	"aria-hidden": "true",
	viewBox: "0 0 32 32",
	children: [
		createVNode("rect", {
			width: "32",
			height: "32",
			rx: "8",
			fill: "#17514a"
		}),
		createVNode("path", {
			d: "M8.5 16.6l4.6 4.7L23.5 10",
			fill: "none",
			stroke: "#fff",
			"stroke-width": "3",
			"stroke-linecap": "round",
			"stroke-linejoin": "round"
		}),
		createVNode("path", {
			d: "M8.5 25h15",
			stroke: "#8fd3c4",
			"stroke-width": "2.2",
			"stroke-linecap": "round"
		})
	]
});
function Top({ children }) {
	const { state, text } = useValue(link);
	const session = useValue(me);
	const isGone = useValue(gone) !== void 0;
	return createVNode("header", {
		class: "top",
		children: [createVNode("div", {
			class: "top-row",
			children: [
				createVNode("a", {
					class: "brand",
					href: only ? "/" : "#/inbox",
					children: [createVNode(Mark, {}), createVNode("span", { children: "countersign" })]
				}),
				createVNode("p", {
					class: "link-state",
					id: "link",
					"data-state": state,
					children: [createVNode("span", {
						class: "dot",
						"aria-hidden": "true"
					}), createVNode("span", {
						id: "link-text",
						role: "status",
						children: text
					})]
				}),
				createVNode("div", {
					class: "top-actions",
					children: [
						createVNode(StopButton, { isKnown: session !== void 0 && !isGone }),
						createVNode("button", {
							type: "button",
							class: "quiet",
							id: "help-open",
							"aria-haspopup": "dialog",
							onClick: () => isHelp.set(true),
							children: "Keys"
						}),
						createVNode("button", {
							type: "button",
							class: "quiet",
							id: "sign-out",
							hidden: isGone,
							title: session && `Signed in as ${session.name}`,
							onClick: () => void signOut(),
							children: "Sign out"
						})
					]
				})
			]
		}), children]
	});
}
function Notices() {
	return createVNode("div", {
		id: "notices",
		children: [...useValue(notices)].map(([id, said]) => createVNode(Note, {
			id,
			said
		}, id))
	});
}
function Note({ id, said: { text, edit } }) {
	const later = useValue(record);
	return createVNode("div", {
		class: "notice",
		id: `notice-${id}`,
		children: [createVNode("p", {
			role: "alert",
			children: createVNode("bdi", { children: visible(text) })
		}), edit && later && createVNode(later.HeldAnswers, {
			id,
			edit
		})]
	});
}
function Head() {
	const now = useValue(head);
	if (!now) return null;
	return createVNode("p", {
		class: "hint",
		id: "head",
		title: `SHA-256 ${now.hash}`,
		children: [`Audit log sealed up to record ${now.seq.toLocaleString("en")} `, createVNode("code", { children: visible(now.hash.slice(0, 16)) })]
	});
}
function Gone() {
	const why = useValue(gone);
	const title = useRef(null);
	useLayoutEffect(() => title.current?.focus(), []);
	return createVNode("section", {
		class: "gone",
		id: "gone",
		children: [
			createVNode("h1", {
				id: "gone-title",
				ref: title,
				tabIndex: -1,
				children: "You are signed out"
			}),
			createVNode("p", {
				id: "gone-text",
				children: `${why} Nothing more is shown here until you sign in again.`
			}),
			createVNode("p", { children: createVNode("a", {
				class: "button primary",
				id: "gone-link",
				href: only ? `/login?next=/a/${only}` : "/login",
				children: "Sign in"
			}) })
		]
	});
}
function Announcer() {
	return createVNode("p", {
		class: "unseen",
		id: "announce",
		role: "status",
		"aria-live": "polite",
		children: useValue(announced)
	});
}
// src/main.tsx
var POLL_MS = 3e3;
var GATHER_MS = 80;
var TYPES = [
	"exec.requested",
	"exec.started",
	"exec.finished",
	"exec.denied",
	"exec.approval.",
	"exec.stopped",
	"exec.resumed",
	"allowlist.",
	"policy.",
	"config.",
	"document.",
	"node.",
	"server."
];
var policySoon = looker(seePolicy, GATHER_MS);
var pairingsSoon = looker(seePairings, GATHER_MS);
var line;
function App() {
	const isGone = useValue(gone) !== void 0;
	const later = useValue(record);
	return createVNode(Fragment, { children: [
		createVNode("a", {
			class: "skip",
			href: "#main",
			onClick: (event) => {
				event.preventDefault();
				document.querySelector("main h1")?.focus();
			},
			children: "Skip to the content"
		}),
		createVNode(Top, { children: !isGone && !only && createVNode(Nav, {}) }),
		createVNode("main", {
			id: "main",
			children: isGone ? createVNode(Gone, {}) : createVNode(Views, {})
		}),
		!isGone && createVNode(Title, {}),
		later && createVNode(later.Help, {}),
		later && !isGone && createVNode(later.StopDialog, {}),
		createVNode(Announcer, {})
	] });
}
function Views() {
	const { view } = useValue(place);
	const later = useValue(record);
	useHeadingFocus(view);
	return createVNode(Fragment, { children: [
		createVNode(Stopped, {}),
		view === "inbox" && later && createVNode(later.Trust, {}),
		createVNode(Notices, {}),
		view === "inbox" ? createVNode(Inbox, {}) : createVNode(Opened, { name: view }, view),
		createVNode(Head, {})
	] });
}
async function start() {
	if (!secret()) return leave();
	const root = document.querySelector("#app");
	if (root) render(createVNode(App, {}), root);
	onSecretChange((now) => now ? location.reload() : signedOut("You signed out in another tab."));
	gone.follow(() => {
		line?.stop();
		empty();
		const icon = document.querySelector("#icon");
		if (icon) icon.href = "/assets/icon.svg";
	});
	listen();
	const early = load().catch(() => {});
	const session = await untilReached(() => json("GET", "/auth/session"));
	me.set(session);
	if (!may("read") && !may("approve")) {
		blank.set("This sign-in can see no requests: its token has neither the scope read nor approve.");
		return say("off", `Signed in as ${session.name}`);
	}
	await early;
	if (!only) blank.set("Nothing is waiting. New requests appear here by themselves.");
	draw();
	await new Promise((done) => setTimeout(done, 0));
	setInterval(tick, 1e3);
	for (const kind of [
		"pointerdown",
		"pointermove",
		"keydown",
		"wheel",
		"touchmove"
	]) addEventListener(kind, touched, { passive: true });
	loadRecord();
	if (may("read")) followEvents();
	else {
		say("poll", "Looking every few seconds");
		poll();
	}
	addEventListener("online", () => line?.retry());
	document.addEventListener("visibilitychange", () => {
		if (!document.hidden) line?.retry();
	});
}
function followEvents() {
	seePolicy().catch(() => {});
	seeHead().catch(() => {});
	seeStop().catch(() => {});
	if (!only) pairingsSoon();
	line = follow(TYPES, may("approve"), {
		open: opened,
		event: heard,
		down,
		refused: failed
	});
	setRetry(() => line?.retry());
}
async function untilReached(ask) {
	for (let pause = 500;; pause = Math.min(pause * 2, 1e4)) try {
		return await ask();
	} catch (error) {
		if (error instanceof Refused && error.status < 500) throw error;
		say("offline", "The server does not answer. Trying again …");
		await new Promise((done) => setTimeout(done, pause));
	}
}
function opened(resumed) {
	setUp(true);
	say("live", "Live");
	streamOpened(resumed);
	loadRecord();
	policySoon();
	refreshStop();
	pairingsSoon();
	hint("all");
}
function down() {
	setUp(false);
	if (gone.value !== void 0) return;
	say("offline", "Offline. Trying again …");
	online.set(false);
}
function heard(event) {
	happened(event);
	const { type } = event;
	if (type === "exec.stopped" || type === "exec.resumed") refreshStop();
	if (type === "server.shutdown") say("offline", "The server is shutting down. Trying again …");
	if (/^(policy|config|document)\./.test(type)) policySoon();
	if (/^exec\.(requested|started|finished|denied)$/.test(type)) hint("runs");
	if (type.startsWith("exec.approval.")) hint("approvals");
	if (type.startsWith("node.")) {
		pairingsSoon();
		hint("nodes");
	}
	if (/^(allowlist|policy|config|document|node)\./.test(type)) hint("policy");
}
async function poll() {
	while (gone.value === void 0) {
		try {
			if (!document.hidden) {
				const before = new Set(model.entries.keys());
				refreshStop();
				await load();
				online.set(true);
				say("poll", "Looking every few seconds");
				tell([...model.entries.values()].filter(({ approval, phase }) => phase === "pending" && !before.has(approval.id)));
			}
		} catch (error) {
			if (error instanceof Refused) failed(error);
			else down();
		}
		await new Promise((done) => setTimeout(done, POLL_MS));
	}
}
isOpened.set(Boolean(only));
start().catch(failed);
export { AFTER, CommandBlock, Fact, FactChips, Fragment, Mono, Refused, State, Time, Unreachable, Variables, Wrong, __vitePreload, addressOf, announce, areAlike, baseName, brief, byteSize, calls, check, chooseAlike, chooseNone, chosen, closeCard, createVNode, decide, draw, drawn, duration, equalKey, everything, factsOf, failed, fallback, filter, focusNext, gone, grantOf, hints, isFinal, isHelp, isNarrow, isOn, isOpen, isRead, json, keepFilter, keepReason, lastReasons, lineOf, listed, look, looker, may, mixedWords, model, mustOpen, narrowingOf, nextOpen, nudge, ofAgent, online, only, open, openRow, opened$1 as opened, outcome, place, placeOf, policy, proposalsOf, reader, refreshStop, rowOf, rows, rule, runFacts, runStatus, seePolicy, send, sentBlindly, serverNow, setCard, setOn, standing, ticks, timeLeft, unfold, unlimited, useEffect, useLayoutEffect, useMemo, useRef, useState, useValue, visible, visibleOutput, wanted, watch, who, width };
