/** Detects whether the first record of a table holds column names or data. */
import { isMarker, isNumber } from './numbers.ts';

/** Consecutive whole numbers are column names if they start in this range of years, or at 0. */
const YEARS = [1900, 2100] as const;

/**
 * The evidence of one field of the first record. `name`: a word above numbers. `value`: a word that
 * also occurs below. `unlike`: a word that does not occur below, where each word occurs at least
 * twice on average.
 */
type Sign = 'name' | 'value' | 'unlike';

/**
 * Whether the first record is a header. If the rows below give no evidence, a record with a number
 * in it is data.
 *
 * @param below the first rows below it; without rows, a record of words is a header.
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
  // Numbers such as years may be names; measurements are not.
  const isNamelike = numbers.every((one) => /^\d+$/.test(one)) && new Set(numbers).size === numbers.length;
  return isNamelike && count('unlike') > count('value');
}

function signOf(field: string, below: readonly string[]): Sign | null {
  if (!isFilled(field) || isNumber(field)) return null;
  const values = below.filter(isFilled);
  if (values.length === 0) return null;
  // A field that starts with a digit is a misspelt number, which is reported later.
  if (values.every(isNumber)) return /^[\p{L}_]/u.test(field) ? 'name' : null;
  if (values.includes(field)) return 'value';
  return values.length >= 2 * new Set(values).size ? 'unlike' : null;
}

function isFilled(field: string): boolean {
  return field !== '' && !isMarker(field);
}

/**
 * Whether the numbers are consecutive years, or 0, 1, 2, ..., by which programs number unnamed
 * columns.
 */
function countUp(numbers: readonly string[]): boolean {
  const [first] = numbers;
  const isYear = Number(first) >= YEARS[0] && Number(first) <= YEARS[1];
  if (!isYear && first !== '0') return false;
  return numbers.length >= (isYear ? 2 : 3) && numbers.every((one, i) => one === String(Number(first) + i));
}
