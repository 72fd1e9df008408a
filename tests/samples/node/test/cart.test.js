import assert from "node:assert/strict";
import test from "node:test";
import { discount, format, total } from "../src/cart.js";

test("the total counts every line", () => {
  assert.equal(total([{ price: 100, quantity: 3 }, { price: 50, quantity: 1 }]), 350);
});

test("a discount is a share of the amount", () => {
  assert.equal(discount(1000, 15), 850);
  assert.throws(() => discount(1000, 101), RangeError);
});

test("amounts have two digits", () => {
  assert.equal(format(5), "0.05 EUR");
});
