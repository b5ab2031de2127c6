/* What changed since an edition: with `?from=COMMIT` only what is newer than that commit is shown. */

"use strict";

(() => {
  const from = new URLSearchParams(location.search).get("from") ?? "";
  if (!from) return;
  const show = (number) => number.toLocaleString("en");
  const said = document.querySelector("p.since");
  said.hidden = false;
  const commits = [...document.querySelectorAll(".commits li")];
  const isCommit = /^[0-9a-f]{7,64}$/.test(from);
  const own = isCommit
    ? commits.findIndex((item) => {
        const id = item.id.slice("since-".length);
        return id.startsWith(from) || from.startsWith(id);
      })
    : commits.findIndex((item) => item.querySelector(`[id="since-${CSS.escape(from)}"]`));
  if (own < 0) {
    said.textContent = `The commit ${from} is not in the history of this site: all changes are shown. Your copy may be newer, or from elsewhere.`;
    return;
  }
  for (const item of commits.slice(own)) item.hidden = true;
  for (const item of document.querySelectorAll("li[data-place]")) {
    item.hidden = Number(item.dataset.place) >= own;
  }
  let count = 0;
  for (const subject of document.querySelectorAll(".subject")) {
    const items = [...subject.querySelectorAll("li")];
    const left = items.filter((item) => !item.hidden);
    subject.hidden = !left.length;
    count += left.length > 0;
    if (!left.length || left.length === items.length) continue;
    const sum = (name) => left.reduce((total, item) => total + Number(item.dataset[name]), 0);
    const [added, removed, rows] = [sum("added"), sum("removed"), sum("rows")];
    const words = [added && `+${show(added)}`, removed && `\u2212${show(removed)}`].filter(Boolean);
    const size = [words.length && `${words.join(" ")} words`, rows && `${show(rows)} rows of tables`];
    subject.querySelector(".size").textContent = size.filter(Boolean).join(", ");
  }
  for (const edition of document.querySelectorAll(".edition")) {
    edition.hidden = !edition.querySelector(".subject:not([hidden])");
  }
  document.querySelector(".commits").hidden = own === 0;
  const day = commits[own].querySelector("time").textContent;
  const all = document.createElement("a");
  all.href = location.pathname;
  all.textContent = "Show all changes";
  const newer = `${own} ${own === 1 ? "commit is" : "commits are"} newer than your edition of ${day} (${from}); chapters and numbers changed in ${count} places. `;
  const none = `Nothing has changed since your edition of ${day} (${from}). `;
  said.replaceChildren(own ? newer : none, all);
  if (location.hash.startsWith("#since-")) scrollTo(0, 0);
})();
