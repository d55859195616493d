/**
 * Parses numbers in text fields, as people, programs and spreadsheets write them: with units,
 * currencies and separators of thousands. The decimal mark is a point or a comma; the other
 * character may separate thousands.
 */
import type { DecimalMark } from '../spec/preview.ts';
import { isMissingValueMarker } from './missing.ts';
import { parseUnit } from './units.ts';

/**
 * A number with thousands separators never starts with a zero, so the comma of 0,125 is a decimal
 * comma. Commas may also separate lakhs and crores, as in 12,34,567.
 */
const PATTERNS: Record<DecimalMark, RegExp> = {
  point: /^[+-]?(\d+\.?\d*|\.\d+|[1-9]\d{0,2}(,\d{3})+(\.\d*)?|[1-9]\d?(,\d\d)+,\d{3}(\.\d*)?)(e[+-]?\d+)?$/i,
  comma: /^[+-]?(\d+(,\d+)?|,\d+|[1-9]\d{0,2}(\.\d{3})+(,\d+)?)(e[+-]?\d+)?$/i,
};
/** Matches numbers that need no conversion. */
const PLAIN = /^-?\d+(?:\.\d+)?$/;
/** Matches numbers with at most one point or comma. Most numbers in large files match. */
const SIMPLE = /^-?\d+(?:[.,]\d+)?$/;
/**
 * Maximum length of a number whose magnitude need not be checked: with so few digits, it is far
 * below the largest supported number.
 */
const SIMPLE_LENGTH = 100;
/** Maximum number of different texts around numbers that are remembered for a column. */
const MAX_KNOWN = 8;

/** Characters without a width, such as byte order marks and marks for the direction of text. */
const INVISIBLE = /[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
const MINUS = /[\u2010-\u2015\u2212\u207b\ufe58\ufe63]/g;
/** Quotes around a number, and the formula by which spreadsheets keep leading zeros: ="0012". */
const QUOTES = /^=?(?:"([^"]*)"|'([^']*)'|[“”„]([^“”]*)[“”]|[‘‚]([^‘’]*)[‘’]|«([^«»]*)»|`([^`]*)`)$/;
const BRACKETS = /^(\D{0,8})\(([^()]*)\)(\D{0,12})$/;
/**
 * Matches the parts of a number: a sign or currency, the digits with separators, an exponent, and a
 * sign or unit.
 */
const PARTS =
  /^(?<before>(?:[^\d.,]|(?<=\p{L})\.){0,8}?)(?<digits>(?:(?<!\p{L})[.,])?\d(?:[\d.,]|[\p{Zs}'’´`_](?=\d))*)(?<exponent>e[+-]?\d+|d[+-]\d+|\s?[x×*·]\s?10(?:\^[+-]?|[+-])\d+)?(?<after>[^\d]?.{0,24})$/iu;
/** Matches groups of three digits, or as in India, groups of two digits before the last three. */
const GROUPS =
  /^[1-9]\d{0,2}(?:([\p{Zs}'’´`_])\d{3})(?:\1\d{3})*(?:[.,]\d*)?$|^[1-9]\d?(?:([\p{Zs}'’´`_])\d\d)(?:\2\d\d)*\2\d{3}(?:[.,]\d*)?$/u;
const SEPARATORS = /[\p{Zs}'’´`_]/gu;
const SUPERSCRIPTS = '⁰¹²³⁴⁵⁶⁷⁸⁹';

/**
 * Two different decimal numbers with at most this number of digits are different as float64, too.
 */
const EXACT_DIGITS = 15;

export interface NumberWithUnit {
  /** The number in digits, with an optional sign, exponent, points and commas. */
  text: string;
  /** The unit, currency or percent sign; empty if the field is only a number. */
  unit: string;
}

/** Returns whether the only mark of a simple number may separate thousands, as in 1.234. */
export function mayHaveThousandsMark(text: string): boolean {
  const first = text.startsWith('-') ? 1 : 0;
  const mark = text.length - 4;
  return mark > first && mark - first <= 3 && (text[mark] === '.' || text[mark] === ',') && text[first] !== '0';
}

/**
 * Reads the numbers of a column. Most of them have the same unit, so the reader remembers the texts
 * before and after numbers. The unit of a number between such texts is already known.
 */
export class NumberReader {
  readonly #known: { before: string; after: string; unit: string }[] = [{ before: '', after: '', unit: '' }];

  /**
   * Returns the number and unit of a trimmed field if its number has at most one point or comma,
   * and if an earlier field had the same text around its number. Otherwise returns `null`.
   */
  simple(field: string): NumberWithUnit | null {
    for (const { before, after, unit } of this.#known) {
      if (!field.startsWith(before) || !field.endsWith(after)) continue;
      const text = field.slice(before.length, field.length - after.length);
      if (SIMPLE.test(text) && text.length <= SIMPLE_LENGTH) return { text, unit };
    }
    return null;
  }

  /** Does the same as {@link parseNumberWithUnit}, and remembers the text around the number. */
  amount(field: string): NumberWithUnit | null {
    const amount = parseNumberWithUnit(field);
    if (amount !== null && this.#known.length < MAX_KNOWN) this.#remember(field, amount);
    return amount;
  }

  /** Does the same as {@link parseNumberField}, but is faster for known texts around the number. */
  number(field: string, mark: DecimalMark): number | null {
    const trimmed = field.trim();
    const amount = this.simple(trimmed) ?? this.amount(trimmed);
    return amount === null ? null : numberWithoutUnit(amount, mark);
  }

  #remember(field: string, { text, unit }: NumberWithUnit): void {
    const at = field.indexOf(text);
    if (at === -1 || !SIMPLE.test(text)) return;
    const [before, after] = [field.slice(0, at), field.slice(at + text.length)];
    // The text is remembered only if it has the same meaning around a negative number. For example,
    // IND and + do not: -1 IND is a missing value, and +-1 is not a number.
    const negative = `${before}-1${after}`;
    const other = parseNumberWithUnit(negative);
    if (other?.text !== '-1' || other.unit !== unit || isMissingValueMarker(negative)) return;
    if (this.#known.every((one) => one.before !== before || one.after !== after)) {
      this.#known.push({ before, after, unit });
    }
  }
}

/**
 * Splits a field into a number and its unit. Returns `null` if the field is not a number. The
 * number may overflow to infinity.
 */
export function parseNumberWithUnit(field: string): NumberWithUnit | null {
  if (PLAIN.test(field)) return { text: field, unit: '' };
  if (!/\p{Nd}/u.test(field)) return null;
  const amount = partsOf(asciiOf(field).trim());
  return amount !== null && (PATTERNS.point.test(amount.text) || PATTERNS.comma.test(amount.text)) ? amount : null;
}

function partsOf(field: string): NumberWithUnit | null {
  const quoted = QUOTES.exec(field);
  if (quoted !== null) return partsOf((quoted.slice(1).find((one) => one !== undefined) ?? '').trim());
  // Some spreadsheets write an apostrophe before text. It is removed.
  if (/^'[^']*$/.test(field)) return partsOf(field.slice(1));
  const brackets = BRACKETS.exec(field);
  if (brackets !== null) {
    const inside = partsOf(`${brackets[1]}${brackets[2]}${brackets[3]}`.trim());
    return inside === null || /^[+-]/.test(inside.text) ? null : { ...inside, text: `-${inside.text}` };
  }
  // A dash stands for zero cents, as in 5.- and 5,-- kr.
  const found = PARTS.exec(field.replace(/(\d)[.,]--?(?!\d)/, '$1'))?.groups;
  if (found === undefined) return null;
  const {
    before,
    digits,
    exponent = '',
    after,
  } = found as Record<'before' | 'digits' | 'after', string> & {
    exponent?: string;
  };
  const isTrailing = /^\s?-$/.test(after);
  const signs = `${before}${isTrailing ? '-' : ''}`.replaceAll(/[^+-]/g, '');
  if (signs.length > 1) return null;
  const unit = parseUnit(before.replace(/[+-]/, '').trim(), isTrailing ? '' : after.trim());
  if (unit === null) return null;
  let number = digits;
  if (GROUPS.test(digits)) number = digits.replaceAll(SEPARATORS, '');
  else if (digits.search(SEPARATORS) !== -1) return null;
  const power = exponent.replace(/^(d|\s?[x×*·]\s?10\^?)/i, 'e');
  return { text: `${signs === '-' ? '-' : ''}${number}${power}`, unit };
}

/**
 * Replaces full-width forms, digits of other scripts, and other minus signs with ASCII characters.
 */
function asciiOf(field: string): string {
  // eslint-disable-next-line no-control-regex
  if (/^[\x00-\x7f]*$/.test(field)) return field;
  return field
    .replaceAll(INVISIBLE, '')
    .replaceAll(/[\uff01-\uff5e]/g, (one) => String.fromCharCode(one.charCodeAt(0) - 0xfee0))
    .replaceAll(/(?!\d)\p{Nd}/gu, (one) => {
      const code = one.codePointAt(0)!;
      // The code of a script's digit 0 is a multiple of 16, or a multiple of 16 plus 6.
      const low = code & 0xf;
      return String(/\p{Nd}/u.test(String.fromCodePoint(code - low)) ? low : low - 6);
    })
    .replaceAll('٫', ',')
    .replaceAll('٬', '\u00a0')
    .replaceAll('٪', '%')
    .replaceAll(MINUS, '-')
    .replaceAll(/(10)([⁻-]?)([⁰¹²³⁴-⁹]+)/gu, (_, ten: string, sign: string, power: string) => {
      const digits = Array.from(power, (one) => SUPERSCRIPTS.indexOf(one)).join('');
      return `${ten}^${sign === '' ? '' : '-'}${digits}`;
    });
}

/**
 * Returns the number in a field without its unit, or `null` if the field is not a number or the
 * number overflows to infinity.
 */
export function parseNumberField(field: string, mark: DecimalMark): number | null {
  const amount = parseNumberWithUnit(field);
  return amount === null ? null : numberWithoutUnit(amount, mark);
}

/** Returns the number of an amount, or `null` if it is not a number with this decimal mark. */
export function numberWithoutUnit({ text }: NumberWithUnit, mark: DecimalMark): number | null {
  if (mark === 'point' && PLAIN.test(text)) return finite(Number(text));
  return PATTERNS[mark].test(text) ? finite(Number(plain(text, mark))) : null;
}

function finite(number: number): number | null {
  return Number.isFinite(number) ? number : null;
}

/**
 * Returns the same text for all notations of a number, such as 1 and 1.0. If the number has more
 * than {@link EXACT_DIGITS} digits, the text contains all of them.
 */
export function canonicalNumberText(field: string, mark: DecimalMark): string {
  const text = plain(parseNumberWithUnit(field)?.text ?? field.trim(), mark);
  const [mantissa] = text.toLowerCase().split('e');
  const digits = (mantissa!.includes('.') ? mantissa!.replace(/0+$/, '') : mantissa!).replaceAll(/\D/g, '');
  return digits.replace(/^0+/, '').length <= EXACT_DIGITS ? String(Number(text)) : text;
}

/** Removes thousands separators and replaces a decimal comma with a point. */
function plain(text: string, mark: DecimalMark): string {
  if (mark === 'point') return text.includes(',') ? text.replaceAll(',', '') : text;
  return text.replaceAll('.', '').replace(',', '.');
}

/** Returns whether a field is a number without a unit, with a decimal point or a decimal comma. */
export function isNumberWithoutUnit(field: string): boolean {
  const amount = parseNumberWithUnit(field);
  return amount?.unit === '' && (numberWithoutUnit(amount, 'point') ?? numberWithoutUnit(amount, 'comma')) !== null;
}
