/**
 * Makes `navigator.language` a language that `Intl` accepts. WebKitGTK reports the language "C" if
 * its process has no other, and then the library of the charts, uPlot, fails to load.
 */
export function ensureValidLanguage(): void {
  try {
    Intl.getCanonicalLocales(navigator.language);
  } catch {
    Object.defineProperty(navigator, 'language', { value: 'en' });
  }
}
