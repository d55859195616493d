/**
 * Numbers in fields, as programs and spreadsheets write them: with a point or a comma before the
 * fraction, and the other between thousands.
 */
import type { DecimalMark } from '../../spec/preview.ts';

/** Thousands never begin with a zero: 0,125 has a decimal comma. */
const PATTERNS: Record<DecimalMark, RegExp> = {
  point: /^[+-]?(\d+\.?\d*|\.\d+|[1-9]\d{0,2}(,\d{3})+(\.\d*)?)(e[+-]?\d+)?$/i,
  comma: /^[+-]?(\d+(,\d+)?|,\d+|[1-9]\d{0,2}(\.\d{3})+(,\d+)?)(e[+-]?\d+)?$/i,
};

/** Numbers of as many digits are different float64s if they are different. */
const EXACT_DIGITS = 15;

/**
 * The number that a field holds; `null` if it holds something else, or a number that overflows and
 * would spoil its whole column.
 */
export function numberOf(field: string, mark: DecimalMark): number | null {
  const text = field.trim();
  if (!PATTERNS[mark].test(text)) return null;
  const number = Number(plain(text, mark));
  return Number.isFinite(number) ? number : null;
}

/**
 * One name for each number that a field may hold: for 1 and 1.0 the same, and for long numbers,
 * which a float64 rounds, their digits.
 */
export function nameOfNumber(field: string, mark: DecimalMark): string {
  const text = plain(field.trim(), mark);
  const [mantissa] = text.toLowerCase().split('e');
  const digits = (mantissa!.includes('.') ? mantissa!.replace(/0+$/, '') : mantissa!).replaceAll(/\D/g, '');
  return digits.replace(/^0+/, '').length <= EXACT_DIGITS ? String(Number(text)) : text;
}

/** Without marks between thousands, and with a decimal point. */
function plain(text: string, mark: DecimalMark): string {
  return mark === 'point' ? text.replaceAll(',', '') : text.replaceAll('.', '').replace(',', '.');
}

/** Whether a field holds a number, with either decimal mark. */
export function isNumber(field: string): boolean {
  return numberOf(field, 'point') !== null || numberOf(field, 'comma') !== null;
}

/**
 * Words that programs write in place of a number that is missing. In a column of words these are
 * words: a class may be called "none".
 */
const MARKERS = new Set(['na', 'n/a', '#n/a', '<na>', 'nan', 'null', 'none', '?', '-', '--', '.']);

/** Whether a field stands for a missing number; an empty one is missing in every column. */
export function isMarker(field: string): boolean {
  return MARKERS.has(field.trim().toLowerCase());
}
