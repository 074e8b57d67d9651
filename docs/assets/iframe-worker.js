// Lets the search work in pages that were opened as files: browsers start no Worker there, so a hidden frame runs the
// worker's script instead. Material for MkDocs takes this file in place of one from the network, by its name.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inner = frame.contentWindow;
      inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
      const load = address => new Promise(loaded => {
        const script = inner.document.createElement("script");
        script.src = address;
        script.addEventListener("load", loaded);
        inner.document.body.appendChild(script);
      });
      inner.importScripts = (...addresses) => addresses.reduce((before, address) => before.then(() => load(address)), Promise.resolve());
      const ready = load(url);
      this.postMessage = data => ready.then(() => inner.dispatchEvent(new MessageEvent("message", {data})));
      this.terminate = () => frame.remove();
    }
  };
}
