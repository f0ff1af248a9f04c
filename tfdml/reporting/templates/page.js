"use strict";

// Shows the gallery of queries. Text goes into the page as text, never as HTML.
(() => {
  const gallery = JSON.parse(document.getElementById("data").textContent).gallery;
  if (!gallery) return;

  const byId = (id) => document.getElementById(id);
  const list = byId("queries");
  const choices = byId("choices");
  const dialog = byId("dialog");
  // The number of queries that are added each time.
  const step = 12;
  let limit = step;
  let visible = [];
  let current = null;

  function make(name, attributes = {}, ...content) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...content);
    return made;
  }

  const image = (row) => gallery.images[row];
  const isRight = (neighbors) => neighbors.length > 0 && neighbors[0][2];
  const word = (right) => (right ? "right" : "wrong");

  function summary(query) {
    const { name, class: ofClass } = image(query.row);
    const found = query.found.map((neighbors, number) => {
      const count = neighbors.filter((each) => each[2]).length;
      const of = gallery.models.length > 1 ? `${gallery.models[number]}: ` : "";
      return `${of}nearest neighbor ${word(isRight(neighbors))}, ${count} of ${neighbors.length} right`;
    });
    const about = query.note || query.kinds.join(", ");
    return `Query ${name}, class ${ofClass} (${about}). ${found.join("; ")}. Show large`;
  }

  // A row of the list is one button. Its label describes its images.
  function card(query) {
    const picture = (row, kind) =>
      make("span", { class: `thumb ${kind}` }, make("img", { src: image(row).src, alt: "" }));
    // A wrong neighbor shows the name of its class.
    const neighbor = ([row, , right]) => {
      const name = right ? [] : [make("small", { title: image(row).class }, image(row).class)];
      return make("span", { class: "near" }, picture(row, word(right)), ...name);
    };
    const rows = query.found.map((neighbors, number) => {
      const pictures = neighbors.map(neighbor);
      const name = gallery.models.length > 1 ? [make("span", { class: "model" }, gallery.models[number])] : [];
      return make("span", { class: "neighbors" }, ...name, make("span", { class: "thumbs" }, ...pictures));
    });
    const ofClass = image(query.row).class;
    const text = make("span", { class: "about", title: ofClass }, ofClass);
    const kinds = make("small", {}, query.note || query.kinds.join(", "));
    const button = make(
      "button",
      { type: "button", class: "open", "aria-haspopup": "dialog", "aria-label": summary(query) },
      make("span", { class: "asked" }, picture(query.row, "query"), make("span", {}, text, kinds)),
      make("span", { class: "answers" }, ...rows),
    );
    button.addEventListener("click", () => open(query));
    return make("li", {}, button);
  }

  function isChosen(query, { kind, class: ofClass, right }) {
    if (kind && !query.kinds.includes(kind)) return false;
    if (ofClass && image(query.row).class !== ofClass) return false;
    return !right || query.found.every((neighbors) => word(isRight(neighbors)) === right);
  }

  function choose() {
    limit = step;
    const wanted = Object.fromEntries(new FormData(choices));
    visible = gallery.queries.filter((query) => isChosen(query, wanted));
    show();
  }

  function show() {
    const shown = visible.slice(0, limit);
    for (const query of gallery.queries) query.card.hidden = !shown.includes(query);
    const all = gallery.queries.length;
    byId("count").value = `${visible.length} of ${all} queries chosen, ${shown.length} shown`;
    byId("more").hidden = shown.length === visible.length;
  }

  function showMore() {
    const first = visible[limit];
    limit += step;
    show();
    first.card.querySelector("button").focus();
  }

  function figure(row, kind, caption) {
    const { src, name, class: ofClass } = image(row);
    return make(
      "figure",
      { class: `full ${kind}` },
      make("span", { class: "frame" }, make("img", { src, alt: `${kind}: ${ofClass}, ${name}` })),
      make("figcaption", {}, make("strong", {}, caption), make("span", {}, ofClass), make("small", {}, name)),
    );
  }

  function cover(frame, shares, seen) {
    const picture = frame.querySelector("img");
    // The same information is in words next to it.
    const canvas = make("canvas", { "aria-hidden": "true" });
    frame.classList.add("covered");
    frame.append(canvas);
    picture.decode().then(() => places.draw(canvas, picture, shares, gallery.grid, seen));
  }

  // Shows which regions of the query and of a neighbor make them similar, or hides them again.
  function explain(button, query, rank) {
    const hides = button.getAttribute("aria-pressed") === "true";
    for (const each of dialog.querySelectorAll(".why")) each.setAttribute("aria-pressed", "false");
    for (const frame of dialog.querySelectorAll(".covered")) {
      frame.classList.remove("covered");
      frame.querySelector("canvas").remove();
    }
    byId("why").value = "";
    if (hides) return;
    button.setAttribute("aria-pressed", "true");
    const frames = [byId("shown").querySelector(".query .frame"), button.closest("li").querySelector(".frame")];
    const rows = [query.row, query.found[0][rank][0]];
    const [here, there] = places.shares(query.places[rank]).map((shares, number) => {
      const { seen } = image(rows[number]);
      cover(frames[number], shares, seen);
      return places.where(shares, gallery.grid, seen);
    });
    const byFirst = gallery.models.length > 1 ? ` for ${gallery.models[0]}` : "";
    byId("why").value =
      `Red regions make the query and neighbor ${rank + 1} more similar${byFirst}, blue regions less similar. ` +
      `The largest contributions are at the ${here} of the query and at the ${there} of the neighbor.`;
  }

  // If there are several models, only the first explains similarities.
  function whyButton(query, number, rank) {
    if (!query.places || number > 0) return [];
    const label = `Why similar? Neighbor ${rank + 1}`;
    const about = { type: "button", class: "why", "aria-pressed": "false", "aria-label": label };
    const button = make("button", about, "Why similar?");
    button.addEventListener("click", () => explain(button, query, rank));
    return [button];
  }

  function open(query) {
    current = query;
    if (query.places) byId("why").value = "";
    const place = visible.indexOf(query);
    byId("shown-title").textContent = `Query ${place + 1} of ${visible.length}: ${image(query.row).class}${query.note ? `, ${query.note}` : ""}`;
    const parts = query.found.map((neighbors, number) => {
      const figures = neighbors.map(([row, close, right], rank) => {
        const caption = `${rank + 1}. ${right ? "✓" : "✗"} ${word(right)}, ${close.toFixed(3)}`;
        return make("li", {}, figure(row, word(right), caption), ...whyButton(query, number, rank));
      });
      const title = gallery.models.length > 1 ? `Nearest neighbors by ${gallery.models[number]}` : "Nearest neighbors";
      const empty = neighbors.length ? [] : [make("p", {}, "The gallery contains no neighbors.")];
      return make("section", {}, make("h4", {}, title), ...empty, make("ol", { class: "found" }, ...figures));
    });
    const note = make("p", {}, `Numbers are the ${gallery.closeness} to the query.`);
    const answers = make("div", { class: "all-found" }, ...parts, note);
    byId("shown").replaceChildren(figure(query.row, "query", "Query"), answers);
    byId("previous").disabled = place <= 0;
    byId("next").disabled = place >= visible.length - 1;
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    // A disabled button does not receive keys.
    if (document.activeElement.disabled) byId("shown-title").focus();
  }

  function move(by) {
    const next = visible[visible.indexOf(current) + by];
    if (next) open(next);
  }

  for (const query of gallery.queries) {
    query.card = card(query);
    list.append(query.card);
  }
  choices.addEventListener("change", choose);
  byId("more").addEventListener("click", showMore);
  choices.addEventListener("submit", (event) => event.preventDefault());
  byId("previous").addEventListener("click", () => move(-1));
  byId("next").addEventListener("click", () => move(1));
  byId("close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") move(-1);
    if (event.key === "ArrowRight") move(1);
  });
  // The target of a click outside the dialog's content is the dialog itself.
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    // The query may be one that the list does not show yet.
    limit = Math.max(limit, visible.indexOf(current) + 1);
    show();
    current.card.querySelector("button").focus();
  });
  choose();
})();
