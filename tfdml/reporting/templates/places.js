"use strict";

// Draws over two pictures which of their places make them similar.
const places = (() => {
  // Pixels along a side of what is drawn, the colors of places that make pictures more and less similar, and how much
  // of a picture the strongest covers.
  const side = 384;
  const more = [178, 24, 43];
  const less = [33, 102, 172];
  const cover = 0.75;

  // Shares from -1 to 1, of the first picture and of the second one: each is a byte, 128 where it is 0.
  function shares(text) {
    const all = Array.from(atob(text), (character) => (character.charCodeAt(0) - 128) / 127);
    return [all.slice(0, all.length / 2), all.slice(all.length / 2)];
  }

  function colored(values, [height, width]) {
    const made = document.createElement("canvas");
    [made.height, made.width] = [height, width];
    const context = made.getContext("2d");
    const pixels = context.createImageData(width, height);
    values.forEach((value, place) => {
      pixels.data.set([...(value > 0 ? more : less), 255 * cover * Math.abs(value)], 4 * place);
    });
    context.putImageData(pixels, 0, 0);
    return made;
  }

  // The picture lies in the middle of a square; `seen` is what the network sees of it.
  function draw(canvas, picture, values, grid, seen) {
    const scale = side / Math.max(picture.naturalWidth, picture.naturalHeight);
    const [width, height] = [picture.naturalWidth * scale, picture.naturalHeight * scale];
    const [left, top] = [(side - width) / 2, (side - height) / 2];
    canvas.width = canvas.height = side;
    const context = canvas.getContext("2d");
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    const [begin, above, end, below] = seen;
    const size = [(end - begin) * width, (below - above) * height];
    context.drawImage(colored(values, grid), left + begin * width, top + above * height, ...size);
  }

  // Where the largest share of a picture lies, in words.
  function where(values, [height, width], [begin, above, end, below]) {
    const place = values.indexOf(Math.max(...values));
    const down = above + ((Math.floor(place / width) + 0.5) / height) * (below - above);
    const across = begin + (((place % width) + 0.5) / width) * (end - begin);
    const third = (part) => Math.max(0, Math.min(2, Math.floor(3 * part)));
    const row = ["top", "middle", "bottom"][third(down)];
    const column = ["left", "center", "right"][third(across)];
    return row === "middle" && column === "center" ? "center" : `${row} ${column}`;
  }

  return { shares, draw, where };
})();
