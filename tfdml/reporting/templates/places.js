"use strict";

// Colors the regions of two images that make them similar.
const places = (() => {
  // The side of the canvas in pixels, the colors of regions that make images more and less similar, and the opacity of
  // the strongest region.
  const side = 384;
  const more = [178, 24, 43];
  const less = [33, 102, 172];
  const cover = 0.75;

  // Shares from -1 to 1 of the first and of the second image. Each is one byte, and 128 means 0.
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

  // The image is centered in a square. `seen` is the part of it that the network sees.
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

  // The position of an image's largest share, in words.
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
