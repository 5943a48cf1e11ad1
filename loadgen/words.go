package loadgen

import "strings"

// words are common English words, most of them one token in the vocabularies of today, for servers that
// take no token ids.
var words = strings.Fields(`
time year people way day man thing woman life child world school state family student group country problem
hand part place case week company system program question work government number night point home water room
mother area money story fact month lot right study book eye job word business issue side kind head house
service friend father power hour game line end member law car city community name president team minute idea
body information back parent face others level office door health person art war history party result change
morning reason research girl guy moment air teacher force education foot boy age policy music market sense
nation plan college interest death experience effect use class control field care paper cost road town tree
food rock table plant fire rule form river season summer winter spring ocean island bridge garden window
letter paint glass metal stone cloud storm light sound voice dance song picture camera film stage actor writer
poem novel page chapter subject object action event past future present ancient modern early late north south
east west small large short long high low open close start stop move turn walk run stand sit carry hold bring
take give send receive build break make find lose win play learn teach read write speak listen watch look see
hear feel think know believe hope want need like love
`)
