"use strict";
// Decides when the live parts of a page are read anew. htmx asks for each every few seconds; here a part is held as it
// is while somebody uses it, so that nothing moves under the pointer and no focus, selection or open text is lost.
(() => {
  const controls = document.querySelector("[data-jobqueue-live-controls]");
  if (!controls) return;
  const words = controls.dataset;
  const pause = controls.querySelector("button");
  const state = controls.querySelector("[role=status]");
  const waiting = controls.querySelector("[data-jobqueue-waiting]");
  const read = controls.querySelector("[data-jobqueue-read]");
  const canHover = matchMedia("(hover: hover)");
  const memory = "jobqueue-live-paused";
  const places = new WeakMap(); // how far the wide tables of a part are scrolled
  const troubles = new Map(); // of parts: how often they could not be read, when to try again, whether it is over

  const paused = () => pause.getAttribute("aria-pressed") === "true";
  const parts = () => document.querySelectorAll("[data-jobqueue-live]");
  const isPart = (element) => element instanceof Element && element.hasAttribute("data-jobqueue-live");

  function used(part) {
    const selection = getSelection();
    return part.contains(document.activeElement)
      || Boolean(part.querySelector("details[open]:not([data-jobqueue-open]), input:checked:not([type=hidden], [data-jobqueue-steady])"))
      || Boolean(selection && !selection.isCollapsed && part.contains(selection.anchorNode))
      || part.matches(":active")
      || (canHover.matches && !part.hasAttribute("data-jobqueue-steady") && part.matches(":hover"));
  }

  // A status is announced when its text changes, so it changes only when something did.
  function tell(text) {
    if (state.textContent !== text) state.textContent = text;
  }

  // That a part waits is written, but not announced: nobody wants to hear of it at each step over the page.
  function show() {
    const waits = !paused() && [...parts()].some((part) => used(part) && !(troubles.get(part) || {}).ended);
    waiting.textContent = waits ? words.used : "";
  }

  function tellAll() {
    const all = [...troubles.values()];
    tell(all.some((one) => one.ended) ? words.ended : paused() ? words.paused : all.length ? words.failed : words.live);
  }

  function failed(part, ended) {
    const times = ((troubles.get(part) || {}).times || 0) + 1;
    troubles.set(part, { times, ended, notBefore: Date.now() + Math.min(60000, 5000 * 2 ** times) });
    tellAll();
  }

  function start() {
    pause.hidden = false;
    controls.querySelector("a").hidden = true;
    if (sessionStorage.getItem(memory)) pause.setAttribute("aria-pressed", "true");
    tellAll();
    pause.addEventListener("click", () => {
      const now = !paused();
      pause.setAttribute("aria-pressed", String(now));
      now ? sessionStorage.setItem(memory, "1") : sessionStorage.removeItem(memory);
      tellAll();
      if (!now) askAll();
    });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) askAll(); });

    document.body.addEventListener("htmx:beforeRequest", (event) => {
      if (!isPart(event.target)) return;
      show();
      const trouble = troubles.get(event.target);
      if (trouble && (trouble.ended || Date.now() < trouble.notBefore)) event.preventDefault();
      if (paused() || document.hidden || used(event.target)) event.preventDefault();
    });
    // Asked of each request, not of htmx.config: that may be the site's. While one hangs htmx drops those that follow.
    document.body.addEventListener("htmx:configRequest", (event) => {
      if (isPart(event.target)) event.detail.timeout = Number(words.timeout) * 1000;
    });
    document.body.addEventListener("htmx:beforeSwap", (event) => {
      const part = event.target;
      if (!isPart(part)) return;
      const at = event.detail.xhr.getResponseHeader("X-JobQueue-Live");
      if (!at) { // an error, or the page of the login
        event.detail.shouldSwap = false;
        failed(part, event.detail.xhr.status < 500);
        return;
      }
      troubles.delete(part);
      if (paused() || used(part)) { // meanwhile
        event.detail.shouldSwap = false;
        show();
        return;
      }
      read.textContent = at;
      places.set(part, [...part.querySelectorAll(".jobqueue-wide")].map((one) => [one.scrollLeft, one.scrollTop]));
      tellAll();
    });
    document.body.addEventListener("htmx:afterSwap", (event) => {
      if (!isPart(event.target)) return;
      event.target.querySelectorAll(".jobqueue-wide").forEach((one, index) => {
        const place = (places.get(event.target) || [])[index];
        if (place) one.scrollTo(place[0], place[1]);
      });
    });
    for (const lost of ["htmx:sendError", "htmx:timeout"]) {
      document.body.addEventListener(lost, (event) => { if (isPart(event.target)) failed(event.target, false); });
    }
    for (const left of ["pointerout", "focusout", "toggle"]) document.addEventListener(left, () => setTimeout(show), true);
  }

  function askAll() {
    troubles.forEach((trouble) => { trouble.notBefore = 0; });
    parts().forEach((part) => window.htmx.trigger(part, "jobqueue-live"));
  }

  if (window.htmx) { // the site's own
    start();
    return;
  }
  const settings = {
    includeIndicatorStyles: false, allowEval: false, allowScriptTags: false, historyEnabled: false, selfRequestsOnly: true,
  };
  // htmx reads its settings from here when the page is complete, and else when the page becomes so, which may be past.
  const config = document.createElement("meta");
  config.name = "htmx-config";
  config.content = JSON.stringify(settings);
  const script = document.createElement("script");
  script.src = words.htmx;
  script.addEventListener("load", () => {
    Object.assign(window.htmx.config, settings);
    window.htmx.process(document.body);
    start();
  });
  document.head.append(config, script);
})();
