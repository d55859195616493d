/**
 * Numbers in text fields, as written by programs and spreadsheets: with a decimal point or a
 * decimal comma, and the other mark as the thousands separator.
 */
import type { DecimalMark } from '../../spec/preview.ts';

/** A group before a thousands separator never starts with a zero, so 0,125 has a decimal comma. */
const PATTERNS: Record<DecimalMark, RegExp> = {
  point: /^[+-]?(\d+\.?\d*|\.\d+|[1-9]\d{0,2}(,\d{3})+(\.\d*)?)(e[+-]?\d+)?$/i,
  comma: /^[+-]?(\d+(,\d+)?|,\d+|[1-9]\d{0,2}(\.\d{3})+(,\d+)?)(e[+-]?\d+)?$/i,
};

/** Different decimal numbers with at most this many digits are different as float64. */
const EXACT_DIGITS = 15;

/**
 * The number in a field; `null` if the field is not a number or the number overflows to infinity.
 */
export function numberOf(field: string, mark: DecimalMark): number | null {
  const text = field.trim();
  if (!PATTERNS[mark].test(text)) return null;
  const number = Number(plain(text, mark));
  return Number.isFinite(number) ? number : null;
}

/**
 * The canonical name of a number: the same for 1 and 1.0; for numbers with more digits than a
 * float64 holds, their digits.
 */
export function nameOfNumber(field: string, mark: DecimalMark): string {
  const text = plain(field.trim(), mark);
  const [mantissa] = text.toLowerCase().split('e');
  const digits = (mantissa!.includes('.') ? mantissa!.replace(/0+$/, '') : mantissa!).replaceAll(/\D/g, '');
  return digits.replace(/^0+/, '').length <= EXACT_DIGITS ? String(Number(text)) : text;
}

/** Removes thousands separators and uses a decimal point. */
function plain(text: string, mark: DecimalMark): string {
  return mark === 'point' ? text.replaceAll(',', '') : text.replaceAll('.', '').replace(',', '.');
}

/** Whether a field holds a number, with either decimal mark. */
export function isNumber(field: string): boolean {
  return numberOf(field, 'point') !== null || numberOf(field, 'comma') !== null;
}

/**
 * Words that programs write for a missing number. In a column of words they are ordinary words: a
 * class may be called "none".
 */
const MARKERS = new Set(['na', 'n/a', '#n/a', '<na>', 'nan', 'null', 'none', '?', '-', '--', '.']);

/**
 * Whether a field marks a missing number. Empty fields count as missing in every column and are
 * checked separately.
 */
export function isMarker(field: string): boolean {
  return MARKERS.has(field.trim().toLowerCase());
}
