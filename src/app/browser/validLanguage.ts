/**
 * Makes `navigator.language` a language that `Intl` accepts. WebKitGTK reports the language "C" if
 * its process has no language. With this value, uPlot, the library of the charts, fails to load.
 */
export function ensureValidNavigatorLanguage(): void {
  try {
    Intl.getCanonicalLocales(navigator.language);
  } catch {
    Object.defineProperty(navigator, 'language', { value: 'en' });
  }
}
