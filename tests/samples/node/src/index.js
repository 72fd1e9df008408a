import { discount, format, total } from "./cart.js";

const lines = [
  { name: "tea", price: 450, quantity: 2 },
  { name: "cup", price: 1200, quantity: 1 },
];

console.log(format(discount(total(lines), 10)));
