/**
 * Parses numbers in text fields, as programs and spreadsheets write them. The decimal mark is a
 * point or a comma; the other character may separate thousands.
 */
import type { DecimalMark } from '../../spec/preview.ts';

/**
 * A number with thousands separators never starts with a zero, so the comma of 0,125 is a decimal
 * comma.
 */
const PATTERNS: Record<DecimalMark, RegExp> = {
  point: /^[+-]?(\d+\.?\d*|\.\d+|[1-9]\d{0,2}(,\d{3})+(\.\d*)?)(e[+-]?\d+)?$/i,
  comma: /^[+-]?(\d+(,\d+)?|,\d+|[1-9]\d{0,2}(\.\d{3})+(,\d+)?)(e[+-]?\d+)?$/i,
};

/**
 * If two decimal numbers with at most this number of digits differ, they also differ as float64.
 */
const EXACT_DIGITS = 15;

/**
 * Returns the number in a field, or `null` if the field is not a number or the number overflows to
 * infinity.
 */
export function numberOf(field: string, mark: DecimalMark): number | null {
  const text = field.trim();
  if (!PATTERNS[mark].test(text)) return null;
  const number = Number(plain(text, mark));
  return Number.isFinite(number) ? number : null;
}

/**
 * Returns the same text for all notations of a number, such as 1 and 1.0. If the number has more
 * than {@link EXACT_DIGITS} digits, the text contains all of them.
 */
export function nameOfNumber(field: string, mark: DecimalMark): string {
  const text = plain(field.trim(), mark);
  const [mantissa] = text.toLowerCase().split('e');
  const digits = (mantissa!.includes('.') ? mantissa!.replace(/0+$/, '') : mantissa!).replaceAll(/\D/g, '');
  return digits.replace(/^0+/, '').length <= EXACT_DIGITS ? String(Number(text)) : text;
}

/** Removes thousands separators and replaces a decimal comma with a point. */
function plain(text: string, mark: DecimalMark): string {
  return mark === 'point' ? text.replaceAll(',', '') : text.replaceAll('.', '').replace(',', '.');
}

/** Returns whether a field is a number, with a decimal point or a decimal comma. */
export function isNumber(field: string): boolean {
  return numberOf(field, 'point') !== null || numberOf(field, 'comma') !== null;
}

/**
 * Words that programs write for a missing number. In a column of words, they are ordinary words,
 * because a class may be called "none".
 */
const MARKERS = new Set(['na', 'n/a', '#n/a', '<na>', 'nan', 'null', 'none', '?', '-', '--', '.']);

/**
 * Returns whether a field is a marker of a missing number. Empty fields are missing values in every
 * column and are checked elsewhere.
 */
export function isMarker(field: string): boolean {
  return MARKERS.has(field.trim().toLowerCase());
}
