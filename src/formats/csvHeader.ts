/** Detects whether the first record of a table holds column names or data. */
import { isMissingValueMarker } from './missing.ts';
import { parseNumberWithUnit, isNumberWithoutUnit } from './numbers.ts';

/** Consecutive integers are column names if the first one is 0 or a year in this range. */
const YEARS = [1900, 2100] as const;

/**
 * A conclusion from one field of the first record and the values below it. `name`: the field is a
 * word and all values are numbers, so the field is a column name. `value`: the field is a word that
 * is also one of the values, so the field is data. `unlike`: the field is a word that is not one of
 * the values, and a value occurs at least twice on average, so the field may be a column name.
 */
type Sign = 'name' | 'value' | 'unlike';

/**
 * Returns whether the first record is a header. If a comparison with the rows below decides
 * nothing, a record with numbers is data, unless the numbers look like names, such as years.
 *
 * @param below the first rows below the record. If there are none, a record of words is a header.
 */
export function isCsvHeader(first: readonly string[], below: readonly (readonly string[])[]): boolean {
  const fields = first.map((field) => field.trim());
  // A file may contain several tables, one after the other, each with the same header. Such
  // repetitions are not data.
  const others = below.filter((row) => fields.some((field, i) => field !== row[i]?.trim()));
  const signs = fields.map((field, i) => {
    const [all, different] = [below, others].map((rows) =>
      rows.flatMap((row) => row[i]?.trim() ?? []).filter(isFilled),
    );
    return signOf(field, all!, different!);
  });
  const count = (sign: Sign): number => signs.filter((one) => one === sign).length;
  const numbers = fields.filter(isNumberWithoutUnit);
  if (count('name') > 0 && (numbers.length === 0 || count('value') === 0)) return true;
  if (count('value') > count('unlike')) return false;
  if (numbers.length === 0 || countUp(numbers)) return true;
  // If the numbers are distinct integers, such as years, they may be column names. Otherwise they
  // are measurements.
  const isNamelike = numbers.every((one) => /^\d+$/.test(one)) && new Set(numbers).size === numbers.length;
  return isNamelike && count('unlike') > count('value');
}

/**
 * @param values the column's values in the rows below the field.
 * @param others those of the values whose row differs from the first record.
 */
function signOf(field: string, values: readonly string[], others: readonly string[]): Sign | null {
  if (!isFilled(field) || isNumberWithoutUnit(field) || values.length === 0) return null;
  // If the field does not start with a letter or an underscore, it is a misspelt number instead of
  // a name. The mistake is reported later.
  if (others.length > 0 && others.every((one) => parseNumberWithUnit(one) !== null)) {
    const unit = parseNumberWithUnit(field)?.unit;
    if (unit !== undefined && others.some((one) => parseNumberWithUnit(one)!.unit === unit)) return 'value';
    return /^[\p{L}_]/u.test(field) ? 'name' : null;
  }
  if (values.includes(field)) return 'value';
  return values.length >= 2 * new Set(values).size ? 'unlike' : null;
}

function isFilled(field: string): boolean {
  return field !== '' && !isMissingValueMarker(field);
}

/**
 * Returns whether the numbers are consecutive years or 0, 1, 2, ... Some programs write 0, 1, 2,
 * ... for unnamed columns.
 */
function countUp(numbers: readonly string[]): boolean {
  const [first] = numbers;
  const isYear = Number(first) >= YEARS[0] && Number(first) <= YEARS[1];
  if (!isYear && first !== '0') return false;
  return numbers.length >= (isYear ? 2 : 3) && numbers.every((one, i) => one === String(Number(first) + i));
}
