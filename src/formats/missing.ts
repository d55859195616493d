/** Texts that stand for a missing number. */

/**
 * Words that people and programs write for a missing number, in lower case and without spaces,
 * points, slashes, hyphens and brackets. In a column of words, they are ordinary words, because a
 * class may be called "none".
 */
const WORDS = new Set(
  [
    // Words of programs: pandas, R, SQL, SAS, SPSS, Julia, .NET, Lisp.
    'na nan null none nil undefined missing nat nareal nainteger nacharacter n sysmis systemmissing void ind qnan snan',
    '1#ind 1#qnan 1#snan 1ind 1qnan dbnull nullptr notanumber loading nanind nonumber',
    // English.
    'unknown unk unkn notknown notavailable unavailable notapplicable inapplicable nodata noinfo noinformation novalue',
    'noanswer noresponse notrecorded notreported notspecified unspecified notstated notgiven notprovided notmeasured',
    'blank empty tbd tba tbc nk nr ns np ni dk dontknow donotknow refused nm variable varies varieswithdevice withheld',
    'notdetected notdetermined nondetect bdl lod belowlod trace notasked nonereported missingdata pending inprogress div0 redacted suppressed indeterminate undetermined invalid error noentry',
    // German, Dutch.
    'ka kw nv nb entf entfällt keineangabe keineangaben keinwert keinedaten unbekannt fehlt fehlend fehlwert leer keine',
    'nichtverfügbar nichtbekannt nichtvorhanden nichtzutreffend nichterhoben nichtbestimmt weißnicht weissnicht ungültig ohneangabe oa trifftnichtzu verweigert unbek fehler',
    'onbekend nvt geen ontbreekt ontbrekend nietbeschikbaar nietbekend leeg geendata geengegevens',
    // French, Italian, Spanish, Portuguese, Romanian.
    'nd nc so sansobjet inconnu inconnue manquant manquante nondisponible indisponible nonrenseigné nonrenseigne vide aucun aucune',
    'nonconnu nonapplicable nsp nsnr refusé neseprononcepas sconosciuto sconosciuta mancante nonnoto datomancante vuoto ignoto',
    'sd sindato sindatos desconocido desconocida nodisponible noaplica nsnc nosabe faltante vacío vacio ausente perdido ninguno',
    'semdados seminformação seminformacao desconhecido desconhecida nãodisponível naodisponivel nãoinformado naoinformado',
    'nãoaplicável naoaplicavel nãoseaplica vazio ignorado necunoscut lipsă lipsa indisponibil',
    // Nordic, Finnish, Hungarian.
    'okänd saknas uppgiftsaknas ejtillgänglig ukendt ukjent mangler ikkeoplyst ikkeoppgitt ikketilgængelig ikketilgjengelig',
    'uoplyst ejoplyst ejsvar tuntematon puuttuu tietopuuttuu eitiedossa eisaatavilla ismeretlen hiányzik nincs nincsadat',
    // Slavic, Greek, Turkish, Baltic.
    'bd brak brakdanych nieznany nieznane nieznana niedotyczy neznámý neznámé neznáme chybí není neuvedeno nepoznato nepoznat nema',
    'нд нетданных безданных недоступно недоступен недоступна нетсведений нетинформации неуказано неприменимо нет неизвестно неизвестен отсутствует пусто немаєданих невідомо няма неизвестный δυ άγνωστο bilinmiyor yok boş veriyok',
    'teadmata puudub nežinoma nėra nezināms nav',
    // Words in Arabic, Hebrew, Hindi, Indonesian, Vietnamese, Thai, Chinese, Japanese and Korean.
    'غيرمتوفر غيرمتاح غيرمعروف لايوجد לאידוע איןנתונים אין अज्ञात tidakada tidakdiketahui kosong khôngcó khôngrõ ไม่มี ไม่ทราบ',
    '无 無 無し 没有 無資料 无数据 未知 缺失 缺 不详 不詳 暂无 不明 空 空白 未填 未提供 不适用 不適用 なし 欠損 欠測 該当なし 未回答 無回答 없음 미상 모름 결측 해당없음 무응답 데이터없음',
  ]
    .join(' ')
    .split(' '),
);
/** Errors of spreadsheets in any language, such as #DIV/0!, #WERT!, #¿NOMBRE? and Err:502. */
const SPREADSHEET = /^(?:#[¡¿]?\p{L}[\p{L}\p{M}\d/_ ]*[!?]?|#+|#n\/a n\/a|\p{L}+ ?: ?5\d\d)$/iu;
/**
 * Signs that stand for a missing value. The signs + and * do not. A currency sign without a number
 * stands for a missing value, too.
 */
const SIGNS = /^(?:[?¿.…_/\\~:\u00b7\u2010-\u2015\u2212\uff0dー-]+|\p{Sc} ?[\u2010-\u2015\u2212-]{0,2})$/u;
/** Missing values of SAS and Stata, such as .a and ._, and of C libraries, such as -1.#IND. */
const STATISTICS = /^(?:\.[a-z_]|[+-]?1[.,]#(?:ind|qnan|snan)0*|[+-]?(?:q|s)?nan(?:\(\w*\))?)$/i;

/**
 * Returns whether a field stands for a missing number. Empty fields are missing values in every
 * column and are checked elsewhere.
 */
export function isMissingValueMarker(field: string): boolean {
  const first = field.charCodeAt(0);
  // Most fields of large files begin with a digit.
  if (first >= 0x30 && first <= 0x39 && !field.includes('#')) return false;
  if (field.length > 40) return false;
  return SIGNS.test(field) || SPREADSHEET.test(field) || STATISTICS.test(field) || WORDS.has(compactOf(field));
}

/**
 * Codes for missing values, such as -999, 98 and 9.96921e36, and the smallest and largest integers
 * of 16 and 32 bits.
 */
const SUSPECTS = /^-?(?:9+[789]|32767|2147483647|9\.969\d*e\+?36)(?:[.,]0+)?$|^-(?:9|32768|2147483648)(?:[.,]0+)?$/i;

/** Returns whether a number may be a code for a missing value. Such a number is often ordinary. */
export function mayBeMissingValueCode(number: string): boolean {
  const first = number.charCodeAt(number.startsWith('-') ? 1 : 0);
  // All codes begin with 9, 3 or 2.
  return (first === 0x39 || first === 0x33 || first === 0x32) && SUSPECTS.test(number);
}

function compactOf(field: string): string {
  return field
    .normalize('NFKC')
    .toLowerCase()
    .replaceAll(/[\s./\\_'’"()[\]<>{}?!:*…-]+/g, '');
}
