/** Units and currencies beside numbers. */

/**
 * Matches units or words after a number. They contain no digits, except in units such as m2 and
 * l/100 km.
 */
const AFTER =
  /^(?=[\p{L}%‰‱°'′"″\p{Sc}/µμΩ])(?:[\p{L}\p{M}\p{Sc}%‰‱°'′"″./·*^µμΩ²³⁻¹ -]|(?<=\p{L})[23](?!\d)|(?<=\/ ?)1000?(?= ?\p{L}))+$/u;
/**
 * Matches currencies: words and abbreviations that are not ISO codes, such as kr, and signs with
 * letters, such as US$.
 */
const CURRENCY =
  /^(?:[a-z]{1,3}\p{Sc}|\p{Sc}[a-z]{0,3}|kr|kčs?|kn|zł|zl|ft|lei|fr|sfr|rs|rp|rm|euros?|dollars?|pounds?|円|元|원|руб|грн|тг|дин|лв)$/iu;
const CODES: ReadonlySet<string> = new Set(Intl.supportedValuesOf('currency').map((code) => code.toLowerCase()));
/** Different spellings of a unit or currency, each with the spelling that replaces it in keys. */
const SAME: Readonly<Record<string, string>> = {
  '€': 'eur',
  euro: 'eur',
  $: 'usd',
  us$: 'usd',
  dollar: 'usd',
  '£': 'gbp',
  '₹': 'inr',
  rs: 'inr',
  '₽': 'rub',
  руб: 'rub',
  zł: 'pln',
  zl: 'pln',
  r$: 'brl',
  fr: 'chf',
  sfr: 'chf',
  percent: '%',
  prozent: '%',
  pct: '%',
  nd: 'th',
  rd: 'th',
  st: 'th',
  inche: 'in',
  inch: 'in',
  '"': 'in',
  feet: 'ft',
  foot: 'ft',
  "'": 'ft',
  hour: 'h',
  hr: 'h',
  minute: 'min',
  second: 's',
  sec: 's',
  liter: 'l',
  litre: 'l',
  meter: 'm',
  metre: 'm',
  gram: 'g',
  kilo: 'kg',
  kilogram: 'kg',
  pound: 'lb',
  '°c': 'c',
  '°f': 'f',
  celsius: 'c',
  fahrenheit: 'f',
};
/**
 * For each quantity, such as weight, matches its units. Numbers with different units of one
 * quantity have different scales.
 */
const QUANTITIES: readonly RegExp[] = [
  /^([kmµ]?g|mcg|t|mt|lb|oz|st|stone|кг|г|мг|т|公斤|千克|斤|克|吨)$/i,
  /^([kcmdµn]?m|in|ft|yd|mi|mile|nmi|км|м|см|мм|米|厘米|公里|千米)$/i,
  /^([kcmd]?m[²2]|sqm|sqft|sqkm|ft[²2]|ha|acre)$/i,
  /^([mcdhµ]?l|[cdm]?m[³3]|cc|gal|gallon|pt|qt|floz|л|мл|升|毫升)$/i,
  /^([mµn]?s|min|h|d|day|w|wk|week|mo|month|y|yr|year|jahr|monat|tag|an|mois|jour|año|лет|год|ч|мин|秒|分|分钟|小时|天|日|月|岁|年)$/i,
  /^([cfk]|°[cfk]?|℃|℉)$/i,
  /^([kmgtp]?(b|bit|byte)|[kmgt]ib)$/i,
  /^([kmg]?hz|rpm|bpm)$/i,
  /^([kmg]?(w|wh)|hp|ps|k?cal|k?j)$/i,
  /^([kmh]?pa|m?bar|psi|mmhg|atm)$/i,
  /^(km\/?h|kph|mph|mi\/h|m\/s|kn|knot)$/i,
  /^(%|‰|‱|pp|bp|ppm|ppb)$/i,
  /^(k|m|mm|mn|mio|mil|million|mrd|bn|b|billion|tn|t|trillion|thousand|tsd|hundred|lakh|lac|cr|crore|千|万|萬|億|亿|тыс|млн|млрд)$/i,
];

/**
 * Returns the unit of a number from the text before and after it. Returns `null` if this text is
 * not a unit. Only currencies, `#` and `№` may stand before a number.
 */
export function parseUnit(before: string, after: string): string | null {
  if (before === '' && after === '') return '';
  if (before !== '' && before !== '#' && before !== '№' && !isCurrency(before)) return null;
  if (after !== '' && !AFTER.test(after)) return null;
  const isTwice = before !== '' && after !== '' && keyOfUnit(before) === keyOfUnit(after);
  return isTwice ? before : `${before}${before !== '' && after !== '' ? ' ' : ''}${after}`;
}

function isCurrency(text: string): boolean {
  const name = text.toLowerCase().replaceAll(/[.\s]+/g, '');
  return CODES.has(name) || CURRENCY.test(name);
}

/** Returns the same key for spellings of a unit, such as `€` and `EUR`, or `day` and `Days`. */
export function keyOfUnit(unit: string): string {
  const compact = unit
    .normalize('NFKC')
    .replaceAll(/[\s.]+/g, '')
    .replaceAll('μ', 'µ');
  // Upper case changes the meaning of short units: mm and Mm, k and K.
  const isUpper = /^(?:[MP].?|[KGT])$/.test(compact) && !isCurrency(compact);
  const lower = isUpper ? compact : compact.toLowerCase();
  const one = lower.length > 2 && lower.endsWith('s') ? lower.slice(0, -1) : lower;
  return SAME[lower] ?? SAME[one] ?? one;
}

/**
 * Returns a key for each quantity that the unit may measure. If the unit is an ordinary word, the
 * list is empty.
 */
export function quantitiesOfUnit(unit: string): string[] {
  const parts = unit.split(/[\s/·*]+|(?<=\p{Sc})(?=\p{L})/u).filter((part) => part !== '');
  const whole = parts.length === 1 ? [] : quantitiesOfPart(unit);
  const each = parts.reduce<string[]>(
    (keys, part) => keys.flatMap((key) => quantitiesOfPart(part).map((one) => `${key}/${one}`)),
    [''],
  );
  return [...whole.map((one) => `/${one}`), ...each];
}

function quantitiesOfPart(part: string): string[] {
  if (/^\d+$/.test(part)) return [part];
  const currency = isCurrency(part) ? ['currency'] : [];
  return currency.concat(QUANTITIES.flatMap((one, i) => (one.test(keyOfUnit(part)) ? [String(i)] : [])));
}

/**
 * Returns whether numbers with this unit differ in scale from numbers without it, as 5 % and 5 do.
 */
export function isShareUnit(unit: string): boolean {
  return ['%', '‰', '‱'].includes(keyOfUnit(unit));
}

/** Returns a unit in words for messages. */
export function nameOfUnit(unit: string): string {
  return unit === '' ? 'no unit' : `the unit ${JSON.stringify(unit)}`;
}
