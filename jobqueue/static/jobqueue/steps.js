"use strict";
// Goes on with an action step by step, as a person would by the button. Stop waits for the step under way: its answer
// says what it did, and a request that is broken off would do it all the same.
(() => {
  const form = document.querySelector("form[data-jobqueue-run]");
  if (!form) return;
  const goOn = form.querySelector("[name=go_on]");
  const stop = form.querySelector("[name=stop]");
  const status = document.getElementById("jobqueue-status");
  const wish = "jobqueue-stop-" + form.dataset.jobqueueRun;
  let underWay = false;
  stop.addEventListener("click", (event) => {
    if (!underWay) return;
    event.preventDefault();
    sessionStorage.setItem(wish, "1");
    status.textContent = form.dataset.stopping;
  });
  if (sessionStorage.getItem(wish)) {
    sessionStorage.removeItem(wish);
    form.requestSubmit(stop);
    return;
  }
  stop.focus();
  goOn.addEventListener("click", () => { underWay = true; });
  setTimeout(() => { if (!underWay) { underWay = true; form.requestSubmit(goOn); } }, 400);
})();
