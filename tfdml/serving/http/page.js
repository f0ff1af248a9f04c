"use strict";
const at = id => document.getElementById(id);
// Object URLs of the images on the page (to free them later), the number of the last search, its image or null, and its
// box, which is the left, top, right and bottom as fractions of the image, or null.
let shown = [], last = 0, asked = null, part = null;

const headers = () => {
  const token = sessionStorage.getItem("token");
  return token ? {Authorization: "Bearer " + token} : {};
};

async function call(path, options) {
  let response;
  try {
    response = await fetch(path, {...options, headers: headers()});
  } catch {
    throw new Error("The service does not answer. Check that it is running.");
  }
  if (response.ok) return response;
  if (response.status === 401) at("access").hidden = false;
  const told = await response.json().catch(() => ({}));
  if (response.status === 401) throw new Error("The service requires a token. Enter it above.");
  throw new Error(told.error || "The service answered with the error " + response.status + ".");
}

function tell(error) {
  at("error").textContent = error ? error.message : "";
  at("error").hidden = !error;
  if (error) at("state").textContent = "";
}

function address(blob) {
  const made = URL.createObjectURL(blob);
  shown.push(made);
  return made;
}

// Searches for an image, for the text in the field, or for both.
async function search(image, box = null) {
  const number = ++last, text = at("text").value.trim();
  asked = image;
  part = box;
  shown.forEach(URL.revokeObjectURL);
  shown = [];
  tell(null);
  at("found").replaceChildren();
  if (image) at("query").src = address(image);
  else at("query").removeAttribute("src");
  at("frame").hidden = !image;
  at("whole").hidden = !box;
  at("weights").hidden = !image || !text;
  outline(at("query"), box);
  at("answer").hidden = true;
  at("state").textContent = "";
  if (!image && !text) return;
  at("state").textContent = "Searching…";
  try {
    const where = box ? {box: box.join(",")} : {};
    const words = text ? {text, ...(image ? {text_weight: at("weight").value} : {})} : {};
    // The label is a separate request, because it has its own number of voting neighbors. Only images have labels.
    const [found, voted] = await Promise.all([
      ask("/search", image, {k: at("k").value, ...where, ...words}), text ? null : ask("/label", image, where),
    ]);
    if (number !== last) return;
    at("state").textContent = counted(found);
    at("voted").hidden = !voted;
    if (voted) at("label").textContent = labeled(voted);
    at("threshold").textContent = found.threshold == null ? "None, so all neighbors are accepted" : found.threshold.toFixed(4);
    at("answer").hidden = false;
    at("found").append(...found.neighbors.map(neighbor => item(neighbor, number)));
  } catch (error) {
    if (number === last) tell(error);
  }
}

async function ask(path, image, fields) {
  const form = new FormData();
  if (image) form.append("image", image, "image");
  form.append("where", at("where").value);
  for (const name in fields) form.append(name, fields[name]);
  return (await call(path, {method: "POST", body: form})).json();
}

function counted({neighbors, matching, exact}) {
  const below = neighbors.filter(neighbor => neighbor.accepted === false).length;
  const of = matching == null ? "" : " of " + matching + " that match the filter" + (exact === false ? " (approximate search)" : "");
  return neighbors.length + " nearest images" + of + (below ? ", " + below + " below the threshold" : "");
}

function labeled({label, similarity, threshold}) {
  if (similarity == null) return "None, because no neighbor has a label";
  const nearest = " (similarity of its nearest neighbor: " + similarity.toFixed(4);
  if (threshold == null) return label + nearest + ", no threshold)";
  return label + nearest + (similarity < threshold ? ", below the threshold)" : ")");
}

// Draws a box, as fractions, over the image in a span, or hides it.
function outline(picture, box) {
  const mark = picture.nextElementSibling;
  mark.hidden = !box;
  if (!box) return;
  const [left, top, right, bottom] = box.map(each => 100 * each);
  Object.assign(mark.style, {left: left + "%", top: top + "%", width: right - left + "%", height: bottom - top + "%"});
}

// Boxes of the index may be in pixels of the image.
function fractions(box, {naturalWidth, naturalHeight}) {
  if (!box || Math.max(...box) <= 1) return box ?? null;
  return box.map((each, place) => Math.min(each / (place % 2 ? naturalHeight : naturalWidth), 1));
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function item(neighbor, number) {
  const row = document.createElement("li"), button = document.createElement("button");
  const frame = element("span", ""), photo = element("span", ""), picture = document.createElement("img");
  frame.className = "frame";
  photo.className = "photo";
  photo.append(picture, document.createElement("i"));
  frame.append(photo);
  outline(picture, null);
  if (neighbor.accepted === false) row.className = "below";
  picture.alt = neighbor.name;
  button.title = "Search for this image";
  button.append(frame, element("strong", neighbor.similarity.toFixed(3)), element("span", neighbor.label ?? ""));
  button.append(element("small", neighbor.name));
  row.append(button);
  call("/images/" + neighbor.id).then(response => response.blob()).then(blob => {
    if (number !== last) return;
    picture.src = address(blob);
    picture.addEventListener("load", () => outline(picture, fractions(neighbor.box, picture)));
    button.addEventListener("click", () => {
      at("text").value = "";
      search(blob, fractions(neighbor.box, picture));
    });
  }).catch(error => {
    const none = element("span", error.message);
    photo.replaceWith(none);
  });
  return row;
}

function take(files) {
  const image = [...files].find(file => file.type.startsWith("image/"));
  if (image) search(image);
  else if (files.length) tell(new Error("This file is not an image. Choose a JPEG, PNG or WebP file."));
}

at("file").addEventListener("change", event => {
  take(event.target.files);
  event.target.value = "";
});
const again = () => search(asked, part);
for (const id of ["k", "where", "text", "weight"]) at(id).addEventListener("change", again);
at("whole").addEventListener("click", () => search(asked));
at("remove").addEventListener("click", () => search(null));

// A box is drawn from one corner to the opposite one. Smaller ones are clicks.
const SMALLEST = 0.02;
let corner = null;
function place(event) {
  const area = at("query").getBoundingClientRect();
  const within = (value, size) => Math.min(Math.max(value / size, 0), 1);
  return [within(event.clientX - area.left, area.width), within(event.clientY - area.top, area.height)];
}
function drawn(event) {
  const end = place(event);
  return [0, 1].map(axis => Math.min(corner[axis], end[axis])).concat([0, 1].map(axis => Math.max(corner[axis], end[axis])));
}
at("query").addEventListener("pointerdown", event => {
  if (!asked || event.button) return;
  event.preventDefault();
  at("query").setPointerCapture(event.pointerId);
  corner = place(event);
});
at("query").addEventListener("pointermove", event => corner && outline(at("query"), drawn(event)));
at("query").addEventListener("pointercancel", () => {
  corner = null;
  outline(at("query"), part);
});
at("query").addEventListener("pointerup", event => {
  if (!corner) return;
  const box = drawn(event);
  corner = null;
  if (Math.min(box[2] - box[0], box[3] - box[1]) < SMALLEST) outline(at("query"), part);
  else search(asked, box);
});
addEventListener("paste", event => take(event.clipboardData.files));
addEventListener("dragover", event => {
  event.preventDefault();
  at("drop").classList.add("over");
});
addEventListener("dragleave", event => event.relatedTarget || at("drop").classList.remove("over"));
addEventListener("drop", event => {
  event.preventDefault();
  at("drop").classList.remove("over");
  take(event.dataTransfer.files);
});
at("access").addEventListener("submit", async event => {
  event.preventDefault();
  sessionStorage.setItem("token", at("token").value);
  try {
    await call("/metrics");
    at("access").hidden = true;
    tell(null);
    again();
  } catch {
    sessionStorage.removeItem("token");
    tell(new Error("This token is wrong. Enter the token of the service."));
  }
});
call("/health").then(response => response.json()).then(({token, text}) => {
  at("access").hidden = !token || Boolean(sessionStorage.getItem("token"));
  at("words").hidden = at("remove").hidden = !text;
}).catch(tell);
