// A variable of a trace in the browser: its numbers as they arrive, and the lines that show it up to a moment.

import { decoded } from "./dom.js";

export class View {
  constructor(header) {
    this.header = header;
    this.size = header.shape.reduce((all, one) => all * one, 1);
    this.rows = header.times.length;
    this.times = header.times;
    this.filled = 0; // rows that the first members have
    const count = header.members.length;
    this.values = new Float32Array(count * this.rows * this.size).fill(NaN);
    if (header.data) {
      this.values.set(decoded(header.data));
      this.filled = this.rows;
    }
  }

  // Rows that were recorded: `values` are those of some members, one after another.
  add({ member, members, row, rows, values }) {
    const numbers = decoded(values);
    const block = rows * this.size;
    for (let k = 0; k < members; k++) {
      this.values.set(numbers.subarray(k * block, (k + 1) * block), ((member + k) * this.rows + row) * this.size);
    }
    this.filled = Math.max(this.filled, row + rows);
  }

  get kind() { return this.header.kind; }
  get members() { return this.header.members.length; }

  // The first member of a group, those with the same setting.
  firstOf(group) { return Math.max(0, this.header.groups.indexOf(group)); }

  // How many rows lie at or before a moment.
  until(time) {
    let low = 0, high = this.rows;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] <= time) low = middle + 1; else high = middle;
    }
    return Math.min(low, this.filled);
  }

  // One number of a member along the first rows.
  series(member, place, count) {
    const found = new Array(count);
    const start = member * this.rows * this.size + place;
    for (let k = 0; k < count; k++) found[k] = this.values[start + k * this.size];
    return found;
  }

  // All numbers of a member in one row.
  row(member, row) {
    const start = (member * this.rows + row) * this.size;
    return Array.from(this.values.subarray(start, start + this.size));
  }

  // The name of one of its own numbers: "concept 2".
  part(place) {
    if (this.size === 1) return "";
    const { shape, dims, labels } = this.header;
    const words = [];
    for (let k = shape.length - 1; k >= 0; k--) {
      words.unshift(`${dims[k].replaceAll("_", " ")} ${labels[k][place % shape[k]]}`);
      place = Math.floor(place / shape[k]);
    }
    return words.join(", ");
  }
}

export const viewsOf = (headers) => new Map(headers.map((header) => [header.name, new View(header)]));
