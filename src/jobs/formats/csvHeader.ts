/** Whether the first record of a table holds the names of its columns, or data. */
import { isMarker, isNumber } from './numbers.ts';

/** Names that count up are years from the first of these on; others begin at 0. */
const YEARS = [1900, 2100] as const;

/**
 * A field's hint at what its record is. `name`: it is a word above numbers. `value`: rows below
 * have the same word. `unlike`: it is not among the words below, each of which is in two rows or
 * more on average.
 */
type Sign = 'name' | 'value' | 'unlike';

/**
 * Compares a record with those below it. Where they say nothing, a record with a number in it is
 * data.
 *
 * @param below the first of them; with none, a record of words is names.
 */
export function isHeader(first: readonly string[], below: readonly (readonly string[])[]): boolean {
  const fields = first.map((field) => field.trim());
  const signs = fields.map((field, i) =>
    signOf(
      field,
      below.flatMap((row) => row[i]?.trim() ?? []),
    ),
  );
  const count = (sign: Sign): number => signs.filter((one) => one === sign).length;
  const numbers = fields.filter(isNumber);
  if (count('name') > 0 && (numbers.length === 0 || count('value') === 0)) return true;
  if (count('value') > count('unlike')) return false;
  if (numbers.length === 0 || countUp(numbers)) return true;
  // Years, say, and no measurements.
  const isNamelike = numbers.every((one) => /^\d+$/.test(one)) && new Set(numbers).size === numbers.length;
  return isNamelike && count('unlike') > count('value');
}

function signOf(field: string, below: readonly string[]): Sign | null {
  if (!isFilled(field) || isNumber(field)) return null;
  const values = below.filter(isFilled);
  if (values.length === 0) return null;
  // A digit at the beginning is a number with a slip in it, which is reported later.
  if (values.every(isNumber)) return /^[\p{L}_]/u.test(field) ? 'name' : null;
  if (values.includes(field)) return 'value';
  return values.length >= 2 * new Set(values).size ? 'unlike' : null;
}

function isFilled(field: string): boolean {
  return field !== '' && !isMarker(field);
}

/** Whether these are years, or 0, 1, 2 and on, as programs number columns that have no names. */
function countUp(numbers: readonly string[]): boolean {
  const [first] = numbers;
  const isYear = Number(first) >= YEARS[0] && Number(first) <= YEARS[1];
  if (!isYear && first !== '0') return false;
  return numbers.length >= (isYear ? 2 : 3) && numbers.every((one, i) => one === String(Number(first) + i));
}
