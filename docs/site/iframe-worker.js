// Search on pages that are opened from a disk: there browsers refuse workers, so an iframe takes the place of one. Its
// name keeps the plugin `offline` from loading a script from elsewhere that does the same.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #waiting = [];
    #inside = null;

    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      (document.body ?? document.documentElement).append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = address;
      script.onload = () => {
        this.#inside = inside;
        this.#waiting.splice(0).forEach((data) => this.postMessage(data));
      };
      inside.document.body.append(script);
    }

    postMessage(data) {
      if (this.#inside) {
        this.#inside.dispatchEvent(new MessageEvent("message", { data }));
      } else {
        this.#waiting.push(data);
      }
    }
  };
}
