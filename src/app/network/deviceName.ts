/** Names this device for other devices, from the browser's description of itself. */

/** The first that fits counts: Edge also claims to be Chrome, and Chrome claims to be Safari. */
const BROWSERS = [
  [/Edg/, 'Edge'],
  [/Firefox|FxiOS/, 'Firefox'],
  [/Chrom|CriOS/, 'Chrome'],
  [/Safari/, 'Safari'],
] as const;
const SYSTEMS = [
  [/Android/, 'Android'],
  [/CrOS/, 'ChromeOS'],
  [/iPhone/, 'iPhone'],
  [/iPad/, 'iPad'],
  [/Windows/, 'Windows'],
  [/Mac/, 'Mac'],
  [/Linux/, 'Linux'],
] as const;

/** Returns a name such as `Chrome, Windows`. */
export function browserAndSystemName(userAgent: string): string {
  const [browser, system] = [BROWSERS, SYSTEMS].map((all) => all.find(([pattern]) => pattern.test(userAgent))?.[1]);
  return [browser, system].filter((part) => part !== undefined).join(', ') || 'browser';
}
