/* The search runs in a worker, which browsers refuse to start from a file. Where the site is read from files, a frame
   replaces it. Material for MkDocs has a script from elsewhere for that, unless there is one with this name. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inner = frame.contentWindow
      window.addEventListener("message", event => {
        if (event.source !== this.inner) return
        const message = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(message)
        this.onmessage?.(message)
      })
      this.ready = new Promise((resolve, reject) => {
        const page = this.inner.document
        page.open()
        page.write("<!DOCTYPE html><script>postMessage = data => parent.postMessage(data, '*')</script>")
        page.close()
        const script = page.createElement("script")
        script.onload = resolve
        script.onerror = reject
        script.src = url
        page.head.append(script)
      })
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.inner.frameElement.remove()
    }
  }
}
