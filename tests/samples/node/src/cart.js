// A shopping cart: lines with a price in cents and a quantity.
export function total(lines) {
  return lines.reduce((sum, line) => sum + line.price * line.quantity, 0);
}

export function discount(amount, percent) {
  if (percent < 0 || percent > 100) {
    throw new RangeError(`percent out of range: ${percent}`);
  }
  return Math.round((amount * (100 - percent)) / 100);
}

// TODO: rounding of several currencies
export function format(cents, currency = "EUR") {
  return `${(cents / 100).toFixed(2)} ${currency}`;
}
